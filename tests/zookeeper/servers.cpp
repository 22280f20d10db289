#include "integration/each_server.hpp"
#include "support/tcp_proxy.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"
#include "zookeeper/names.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace conch::test {

namespace {

class zookeeper_under_test final : public lock_server {
 public:
  std::string url() const override { return "zookeeper://127.0.0.1:" + std::to_string(way_.port()); }
  std::string url_of_none() const override { return "zookeeper://127.0.0.1:1"; }
  bool is_taken(std::string const& name) override { return !line(name).empty(); }
  std::int64_t in_line(std::string const& name) override { return std::max<std::int64_t>(static_cast<std::int64_t>(line(name).size()) - 1, 0); }
  void forget(std::string const& name) override {
    auto all = line(name);
    std::sort(all.begin(), all.end(), [](std::string const& a, std::string const& b) {
      return zookeeper::is_before(zookeeper::read_node_name(a).value().sequence, zookeeper::read_node_name(b).value().sequence);
    });
    if (!all.empty()) client().remove(folder(name) + '/' + all.front());
  }
  // It counts packets, heartbeats among them.
  abilities can() const override { return {.segments = false, .operators = false, .own_leases = false, .claims = false, .counts = false}; }
  void stop() override { server_.stop(0); }
  void cont() override { server_.cont(0); }
  void cut() override { way_.drop(); }

 private:
  static std::string folder(std::string const& name) { return zookeeper::folder_of(zookeeper::root_of("", "conch:"), name); }

  /// Its session is kept by nobody, and may have ended since the last question.
  zookeeper_client& client() {
    if (client_ && client_->ends(0ms)) client_.reset();
    if (!client_) client_ = std::make_unique<zookeeper_client>(server_.port(0), 60s);
    return *client_;
  }
  std::vector<std::string> line(std::string const& name) { return client().list(folder(name)); }

  zookeeper_ensemble server_;
  tcp_proxy way_{server_.port(0)};
  std::unique_ptr<zookeeper_client> client_;
};

}  // namespace

std::vector<kind_of_server> const& servers_under_test() {
  static std::vector<kind_of_server> const all{{"zookeeper", [] { return std::make_unique<zookeeper_under_test>(); }}};
  return all;
}

}  // namespace conch::test
