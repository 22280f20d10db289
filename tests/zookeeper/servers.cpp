#include "integration/each_server.hpp"
#include "servers/zookeeper/names.hpp"
#include "support/tcp_proxy.hpp"
#include "support/zookeeper_client.hpp"
#include "support/zookeeper_ensemble.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace conch::test {

namespace {

class zookeeper_under_test final : public lock_server {
 public:
  std::string url() const override { return "zookeeper://127.0.0.1:" + std::to_string(way_.port()); }
  std::string url_of_none() const override { return "zookeeper://127.0.0.1:1"; }
  bool is_taken(std::string const& name) override { return !line(name).empty(); }
  /// A try, too, has a node behind the first for a moment. But only a client that waits watches the node of another.
  std::int64_t in_line(std::string const& name) override {
    std::map<std::string, std::int64_t> owners;  // by path
    for (std::string const& one : line(name)) {
      std::string const path = folder(name) + '/' + one;
      if (auto const node = client().read(path)) owners[path] = node->node.owner;
    }
    std::set<std::int64_t> waiting;
    std::istringstream watches{server_.ask(0, "wchp")};  // a path, and below it the sessions
    std::string path;
    for (std::string text; std::getline(watches, text);) {
      if (!text.starts_with('\t')) {
        path = text;
      } else if (auto const of = owners.find(path); of != owners.end()) {
        auto const session = static_cast<std::int64_t>(std::stoull(text.substr(1), nullptr, 16));
        if (session != of->second) waiting.insert(session);
      }
    }
    return std::count_if(owners.begin(), owners.end(), [&](auto const& one) { return waiting.contains(one.second); });
  }
  void forget(std::string const& name) override {
    auto all = line(name);
    std::sort(all.begin(), all.end(), [](std::string const& a, std::string const& b) {
      return zookeeper::is_before(zookeeper::read_node_name(a).value().sequence,
                                  zookeeper::read_node_name(b).value().sequence);
    });
    if (!all.empty()) client().remove(folder(name) + '/' + all.front());
  }
  // It counts packets, heartbeats among them.
  abilities can() const override {
    return {.segments = false, .operators = false, .own_leases = false, .claims = false, .counts = false};
  }
  void stop() override { server_.stop(0); }
  void cont() override { server_.cont(0); }
  void cut() override { way_.drop(); }

 private:
  static std::string folder(std::string const& name) {
    return zookeeper::folder_of(zookeeper::root_of("", "conch:"), name);
  }

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
