#include "request_counters.hpp"

namespace http_counter {

void request_counters::count(std::string_view method, std::string_view route, unsigned status) {
  std::scoped_lock const guard(mutex_);
  ++requests_[key{method, route, status}];
}

std::string request_counters::to_prometheus() const {
  std::string out =
      "# HELP demo_http_requests_total Requests answered.\n"
      "# TYPE demo_http_requests_total counter\n";
  {
    std::scoped_lock const guard(mutex_);
    for (auto const& [labels, count] : requests_) {
      auto const& [method, route, status] = labels;
      out += "demo_http_requests_total{method=\"" + method + "\",route=\"" + route + "\",status=\"" +
             std::to_string(status) + "\"} " + std::to_string(count) + '\n';
    }
  }
  out +=
      "# HELP demo_http_connections Open HTTP connections.\n"
      "# TYPE demo_http_connections gauge\n"
      "demo_http_connections " +
      std::to_string(connections_.load()) + '\n';
  return out;
}

}  // namespace http_counter
