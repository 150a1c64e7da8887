#include "tests/integration/metrics_page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace qanat::integration {
namespace {

// The body of the answer to a GET; empty when there is none.
std::string Get(const std::string& address, const std::string& path) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string answer;
  if (connect(socket_fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    if (send(socket_fd, request.data(), request.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(request.size())) {
      char buffer[16384];
      for (ssize_t bytes; (bytes = recv(socket_fd, buffer, sizeof(buffer), 0)) > 0;) {
        answer.append(buffer, static_cast<size_t>(bytes));
      }
    }
  }
  close(socket_fd);
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

std::string NameOf(const std::string& series) { return series.substr(0, series.find('{')); }

}  // namespace

MetricsPage MetricsPage::Scrape(const std::string& address) {
  MetricsPage page;
  std::istringstream lines(Get(address, "/metrics"));
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    page.values_[line.substr(0, space)] = std::strtod(line.c_str() + space + 1, nullptr);
  }
  return page;
}

double MetricsPage::Value(const std::string& series, double missing) const {
  const auto found = values_.find(series);
  return found == values_.end() ? missing : found->second;
}

double MetricsPage::Sum(const std::string& metric, const std::string& labels) const {
  double sum = 0;
  for (const auto& [series, value] : values_) {
    if (NameOf(series) == metric && series.find(labels) != std::string::npos) sum += value;
  }
  return sum;
}

bool MetricsPage::Has(const std::string& metric) const {
  for (const auto& [series, value] : values_) {
    const std::string name = NameOf(series);
    if (name == metric || name == metric + "_count") return true;
  }
  return false;
}

}  // namespace qanat::integration
