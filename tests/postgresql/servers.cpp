#include "integration/each_server.hpp"
#include "support/postgresql_server.hpp"

namespace conch::test {

namespace {

class postgresql_under_test final : public lock_server {
 public:
  postgresql_under_test() { client_.ask("select 1"); }

  std::string url() const override { return server_.url(); }
  std::string url_of_none() const override { return "postgresql:///postgres?host=" + (server_.directory() / "data").string(); }
  bool is_taken(std::string const& name) override { return number(name, 3) > 0; }
  std::int64_t in_line(std::string const& name) override { return number(name, 2); }
  void forget(std::string const& name) override { client_.ask("update conch.lock set owner_until = -1 where key = " + key(name)); }
  void stop() override { server_.stop(); }
  void cont() override { server_.cont(); }

 private:
  static std::string key(std::string const& name) { return bytes_literal("conch:{" + name + "}"); }

  /// Of what inspect answers.
  std::int64_t number(std::string const& name, int which) {
    if (!is_there_) is_there_ = client_.ask("select to_regproc('conch.inspect')::text") != "";
    if (!is_there_) return 0;  // no client has made the schema yet
    return client_.number("select (conch.inspect(" + key(name) + "))[" + std::to_string(which) + "]");
  }

  postgresql_server server_;
  postgresql_probe client_{server_};
  bool is_there_ = false;
};

}  // namespace

std::vector<kind_of_server> const& servers_under_test() {
  static std::vector<kind_of_server> const all{{"postgresql", [] { return std::make_unique<postgresql_under_test>(); }}};
  return all;
}

}  // namespace conch::test
