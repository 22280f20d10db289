#include "integration/each_server.hpp"

#include "servers/memory/store.hpp"
#include "servers/redis/scripts.hpp"

#include <chrono>
#include <optional>

namespace conch::test {

namespace {

class redis_under_test final : public lock_server {
 public:
  std::string url() const override { return server_.url(); }
  std::string url_of_none() const override { return "unix://" + (server_.directory() / "none.sock").string(); }
  bool is_taken(std::string const& name) override { return probe_.integer({"EXISTS", lock_key(name)}) == 1; }
  std::int64_t in_line(std::string const& name) override { return test::in_line(probe_, name); }
  void forget(std::string const& name) override { probe_.command({"DEL", lock_key(name)}); }
  void stop() override { server_.stop(); }
  void cont() override { server_.cont(); }
  void cut() override { probe_.command({"CLIENT", "KILL", "TYPE", "pubsub"}); }
  std::int64_t listening() override {
    return probe_.integer({"EVAL", "return #redis.call('PUBSUB', 'CHANNELS', 'conch:*')", "0"});
  }

  void begin_to_count(std::vector<std::string> const&) override {
    for (redis::script const& s : redis::all_scripts()) probe_.command({"SCRIPT", "LOAD", s.source});
    probe_.command({"CONFIG", "RESETSTAT"});
  }
  traffic counted() override {
    auto const all = probe_.commandstats();
    auto const calls = [&](char const* command) {
      auto const found = all.find(command);
      return found == all.end() ? 0 : found->second;
    };
    return {calls("evalsha"), calls("publish")};
  }

  bool is_deceived_by_a_listener() override {
    if (!listener_) listener_.emplace(server_);
    listener_->command({"PSUBSCRIBE", "conch:*"});
    return true;
  }

 private:
  redis_server server_;
  std::optional<redis_probe> listener_;
  redis_probe probe_{server_};
};

class memory_under_test final : public lock_server {
 public:
  std::string url() const override { return "memory://under test"; }
  std::string url_of_none() const override { throw std::logic_error{"memory:// is always there"}; }
  bool is_taken(std::string const& name) override { return seen(name).held > 0; }
  std::int64_t in_line(std::string const& name) override { return static_cast<std::int64_t>(seen(name).waiting); }
  bool is_here() const override { return true; }

 private:
  engine::lock_report seen(std::string const& name) {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return store_->carry_out(protocol::inspect_command{name}, "nobody",
                             std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }

  std::shared_ptr<memory::store> const store_ = memory::store::named("under test\nconch:");
};

}  // namespace

std::vector<kind_of_server> const& servers_under_test() {
  static std::vector<kind_of_server> const all{
      {"redis", [] { return std::make_unique<redis_under_test>(); }},
      {"memory", [] { return std::make_unique<memory_under_test>(); }},
  };
  return all;
}

}  // namespace conch::test
