#include "integration/each_server.hpp"
#include "servers/postgresql/codec.hpp"
#include "support/postgresql_server.hpp"

namespace conch::test {

namespace {

class postgresql_under_test final : public lock_server {
 public:
  postgresql_under_test() { client_.ask("select 1"); }

  std::string url() const override { return server_.url(); }
  std::string url_of_none() const override {
    return "postgresql:///postgres?host=" + (server_.directory() / "data").string();
  }
  bool is_taken(std::string const& name) override { return number(name, 3) > 0; }
  std::int64_t in_line(std::string const& name) override { return number(name, 2); }
  void forget(std::string const& name) override {
    client_.ask("update conch.lock set owner_until = -1 where key = " + key(name));
  }
  void stop() override { server_.stop(); }
  void cont() override { server_.cont(); }
  void cut() override {
    // Until their processes have ended: they hold what tells that a client listens.
    client_.ask(
        "do $$ declare all_ int[] := array(select pid from pg_stat_activity where application_name = 'conch'); begin"
        "  perform pg_terminate_backend(pid) from unnest(all_) pid;"
        "  while exists (select from pg_stat_activity where pid = any (all_)) loop perform pg_sleep(0.001), "
        "pg_stat_clear_snapshot(); end loop;"
        "end $$");
  }
  std::int64_t listening() override {
    return client_.number(
        "select count(*) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and granted");
  }

  void begin_to_count(std::vector<std::string> const& clients) override {
    client_.ask("unlisten *");
    for (std::string const& one : clients) client_.ask("listen " + postgresql::channel_of(one));
    client_.notified();
    told_ = 0;
    logged_ = server_.log().size();
  }
  traffic counted() override {
    traffic all;
    std::string const log = server_.log(logged_);
    constexpr std::string_view request = "LOG:  execute conch_";  // by log_statement
    for (auto at = log.find(request); at != std::string::npos; at = log.find(request, at + 1)) ++all.requests;
    all.pushes = told_ += client_.notified();
    return all;
  }

 private:
  static std::string key(std::string const& name) { return bytes_literal("conch:{" + name + "}"); }

  /// A number in the answer of inspect.
  std::int64_t number(std::string const& name, int which) {
    if (!is_there_) is_there_ = client_.ask("select to_regproc('conch.inspect')::text") != "";
    if (!is_there_) return 0;  // no client has made the schema yet
    return client_.number("select (conch.inspect(" + key(name) + "))[" + std::to_string(which) + "]");
  }

  postgresql_server server_{{.settings = {"log_statement=all"}}};
  postgresql_probe client_{server_};
  bool is_there_ = false;
  std::size_t logged_ = 0;
  std::int64_t told_ = 0;
};

}  // namespace

std::vector<kind_of_server> const& servers_under_test() {
  static std::vector<kind_of_server> const all{
      {"postgresql", [] { return std::make_unique<postgresql_under_test>(); }}};
  return all;
}

}  // namespace conch::test
