#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

namespace qanat::metrics {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

std::optional<double> ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(statm >> size >> resident)) return std::nullopt;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::optional<double> OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  return static_cast<double>(std::distance(begin(files), end(files)));
}

// Boot time plus the 22nd field of /proc/self/stat (proc(5)), which is counted after the last ')' because the
// second one, the name, may hold anything.
std::optional<double> StartSeconds() {
  std::ifstream stat_file("/proc/self/stat");
  std::string stat;
  if (!std::getline(stat_file, stat)) return std::nullopt;
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;

  std::ifstream system("/proc/stat");
  std::string word;
  double boot = 0;
  while (system >> word) {
    if (word == "btime" && system >> boot) return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return std::nullopt;
}

}  // namespace

void ReadProcessMetrics(Scrape& scrape) {
  scrape.Set("process_cpu_seconds_total", {}, CpuSeconds());
  if (const auto bytes = ResidentBytes()) scrape.Set("process_resident_memory_bytes", {}, *bytes);
  if (const auto files = OpenFiles()) scrape.Set("process_open_fds", {}, *files);
  if (const auto start = StartSeconds()) scrape.Set("process_start_time_seconds", {}, *start);
}

}  // namespace qanat::metrics
