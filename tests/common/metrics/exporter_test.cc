#include "common/metrics/exporter.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The body of GET /metrics at "127.0.0.1:port".
std::string Get(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
  if (connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) != 0) return "";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (write(fd, request.data(), request.size()) < 0) return "";
  std::string answer;
  char buffer[4096];
  for (ssize_t n = read(fd, buffer, sizeof(buffer)); n > 0; n = read(fd, buffer, sizeof(buffer))) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

TEST(ExporterTest, ShowsASeriesAtZeroBeforeTraffic) {
  Exporter exporter;
  exporter.GetCounter("qanat_worker_steps_total", {"m"});
  exporter.GetHistogram("qanat_worker_batch_tokens", {"m"});
  const std::string text = exporter.Text();
  EXPECT_THAT(text, HasSubstr("# HELP qanat_worker_steps_total Engine steps\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE qanat_worker_steps_total counter\n"));
  EXPECT_THAT(text, HasSubstr("qanat_worker_steps_total{model=\"m\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("qanat_worker_batch_tokens_count{model=\"m\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("NaN")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(ExporterTest, CountsIntoOneSeriesForEqualLabels) {
  Exporter exporter;
  exporter.GetCounter("qanat_worker_requests_total", {"m", "stop"}).Add();
  exporter.GetCounter("qanat_worker_requests_total", {"m", "stop"}).Add(2);
  exporter.GetCounter("qanat_worker_requests_total", {"m", "length"}).Add();
  Gauge gauge = exporter.GetGauge("qanat_router_in_flight", {"w"});
  gauge.Set(5);
  gauge.Add(-2);
  const std::string text = exporter.Text();
  EXPECT_THAT(text, HasSubstr("qanat_worker_requests_total{finish_reason=\"stop\",model=\"m\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("qanat_worker_requests_total{finish_reason=\"length\",model=\"m\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("qanat_router_in_flight{worker=\"w\"} 3\n"));
}

TEST(ExporterTest, PutsObservationsIntoTheCataloguesBuckets) {
  Exporter exporter;
  Histogram histogram = exporter.GetHistogram("qanat_worker_batch_sequences", {"m"});
  histogram.Observe(1);
  histogram.Observe(3);
  const std::string text = exporter.Text();
  EXPECT_THAT(text, HasSubstr("qanat_worker_batch_sequences_bucket{model=\"m\",le=\"2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("qanat_worker_batch_sequences_bucket{model=\"m\",le=\"4\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("qanat_worker_batch_sequences_sum{model=\"m\"} 4\n"));
}

TEST(ExporterTest, ReadsSourcesAtEachScrape) {
  Exporter exporter;
  double blocks = 7;
  exporter.AddSource([&](Scrape& scrape) {
    scrape.Set("qanat_worker_kv_blocks", {"m", "free"}, blocks);
    scrape.Set("qanat_worker_kv_blocks", {"m", "cached"}, 1);
    scrape.Set("qanat_worker_prefix_cache_evictions_total", {"m"}, 4);
  });
  EXPECT_THAT(exporter.Text(), HasSubstr("qanat_worker_kv_blocks{model=\"m\",state=\"free\"} 7\n"));
  blocks = 9;
  const std::string text = exporter.Text();
  EXPECT_THAT(text, HasSubstr("qanat_worker_kv_blocks{model=\"m\",state=\"free\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("qanat_worker_kv_blocks{model=\"m\",state=\"cached\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE qanat_worker_prefix_cache_evictions_total counter\n"));
}

TEST(ExporterTest, ServesMetricsOverHttpAtTheAddressItReturns) {
  Exporter exporter;
  exporter.AddProcessMetrics("worker");
  exporter.GetCounter("qanat_worker_steps_total", {"m"}).Add(41);
  const auto address = exporter.Listen("127.0.0.1:0");
  ASSERT_TRUE(address.ok()) << address.status();
  const std::string answer = Get(*address);
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("qanat_worker_steps_total{model=\"m\"} 41\n"));
  EXPECT_THAT(answer, HasSubstr("qanat_build_info{"));
  EXPECT_THAT(answer, HasSubstr("process_resident_memory_bytes "));
  EXPECT_THAT(answer, HasSubstr("process_open_fds "));
  EXPECT_THAT(answer, HasSubstr("process_cpu_seconds_total "));
  EXPECT_THAT(answer, HasSubstr("process_start_time_seconds "));
}

TEST(ExporterTest, SaysWhichAddressItCannotListenOn) {
  Exporter exporter;
  const auto address = exporter.Listen("127.0.0.1:0");
  ASSERT_TRUE(address.ok());
  Exporter second;
  const auto taken = second.Listen(*address);
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr(*address));
}

TEST(ExporterDeathTest, WrongLabelsAreABug) {
  Exporter exporter;
  EXPECT_DEATH(exporter.GetCounter("qanat_worker_steps_total", {"m", "extra"}), "has 1 labels");
  EXPECT_DEATH(exporter.GetGauge("qanat_worker_steps_total", {"m"}), "another type");
}

}  // namespace
}  // namespace qanat::metrics
