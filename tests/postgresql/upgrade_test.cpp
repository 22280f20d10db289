// A schema of version 0.2.0 is upgraded while programs of 0.2.0 hold locks and wait, and they continue in the new one.

#include "integration/fixture.hpp"
#include "servers/postgresql/schema.hpp"
#include "support/postgresql_server.hpp"

#include <fstream>
#include <sstream>

namespace conch::test {
namespace {

/// The statements that a program of 0.2.0 sends, on a connection of its own. It prepares all of them when it connects:
/// if one is refused, it makes the schema that it knows.
class program_of_0_2_0 {
 public:
  program_of_0_2_0(postgresql_server& at, char letter) : id_(32, letter), to_{at} {
    to_.ask("select set_config('conch.client', '" + id_ + "', false);listen conch_" + id_ + ";" + preparation() +
            "select * from conch.connect('" + id_ + "')");
    run("hear('" + id_ + "')");
    EXPECT_EQ(run("proves('" + id_ + "')"), "{1}");
  }

  std::string run(std::string const& call) { return to_.ask("execute conch_" + call); }
  std::string acquire(std::string const& key) {
    return run("acquire(" + key + ",'" + id_ + ".1',true,false,60000,3000,60000,0,0)");
  }
  std::string acquire_permit(std::string const& key) {
    return run("acquire_permit(" + key + ",'" + id_ + ".2',true,false,60000,3000,60000,0,0,115,2,1,'',0)");
  }
  std::string release(std::string const& key) {
    return run("release(" + key + ",'" + id_ + ".1',false,false,60000,3000,60000,'')");
  }
  std::string renew(std::string const& key, std::string const& fence) {
    return run("renew(array[" + key + "],array['" + id_ + ".1'],array[" + fence + "],array[60000],60000)");
  }
  std::int64_t notified() { return to_.notified(); }
  std::string id() const { return id_ + ".1"; }

 private:
  static std::string preparation() {
    std::pair<char const*, char const*> const functions[] = {
        {"acquire", "bytea,text,bool,bool,int8,int8,int8,int8,int8"},
        {"acquire_permit", "bytea,text,bool,bool,int8,int8,int8,int8,int8,int4,int8,int8,text,int8"},
        {"acquire_all", "bytea[],text[],int8[],int8,int8"},
        {"adopt", "bytea,text,int8,int8,int8,text"},
        {"adopt_permit", "bytea,text,int8,int8,int8,text,int4"},
        {"release", "bytea,text,bool,bool,int8,int8,int8,text"},
        {"release_permit", "bytea,text,bool,bool,int8,int8,int8,int4,int8,int8,text,int8"},
        {"renew", "bytea[],text[],int8[],int8[],int8"},
        {"renew_permits", "bytea[],text[],int8[],int8[],int8"},
        {"inspect", "bytea"},
        {"force", "bytea,int8,int8,int8"},
        {"ask", "bytea,int8,text"},
        {"asked", "bytea,int8"},
        {"watch", "bytea,text,int8"},
        {"unwatch", "bytea,text"},
        {"set_limit", "bytea,int8,int8,int8,int8,bool"},
        {"end_connection", "int8,text"},
        {"hear", "text"},
        {"proves", "text"},
    };
    std::string all;
    for (auto const& [name, types] : functions) {
      all += std::string{"prepare conch_"} + name + "(" + types + ") as select conch." + name + "($1";
      auto const commas = std::count(types, types + std::string_view{types}.size(), ',');
      for (std::ptrdiff_t n = 2; n <= commas + 1; ++n) all += ",$" + std::to_string(n);
      all += ");";
    }
    return all;
  }

  std::string const id_;
  postgresql_probe to_;
};

class PostgresqlUpgrade : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<postgresql_server>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static postgresql_server& server() { return *server_; }
  ~PostgresqlUpgrade() override { postgresql_probe{server()}.ask("drop schema if exists conch cascade"); }

  static std::string schema_of(std::string const& version) {
    std::ifstream file{CONCH_OLD_SCHEMAS "/" + version + ".sql"};
    std::stringstream all;
    all << "begin;" << file.rdbuf() << ";commit";
    return all.str();
  }

  config settings() const {
    config c;
    c.url = server().url();
    return c;
  }

  /// All that is written of locks.
  std::string rows() {
    std::string all;
    for (char const* const table : {"lock", "part", "line"}) {
      all += admin.ask(std::string{"select coalesce(string_agg(x::text, ' ' order by x::text), '') from conch."} +
                       table + " x where key <> " + other);
      all += '\n';
    }
    return all;
  }
  std::string owner() { return admin.ask("select owner from conch.lock where key = " + key); }
  static std::string second(std::string const& array) {
    auto const comma = array.find(',');
    return array.substr(comma + 1, array.find_first_of(",}", comma + 1) - comma - 1);
  }

  std::string const key = bytes_literal("conch:{kept}"), permits = bytes_literal("conch:{permits}"),
                    other = bytes_literal("conch:{other}");
  postgresql_probe admin{server()};
  world w;

 private:
  static inline std::unique_ptr<postgresql_server> server_;
};

TEST_F(PostgresqlUpgrade, HoldsAndPlacesOfProgramsOf020StayAndTheProgramsGoOn) {
  admin.ask(schema_of("0.2.0"));
  EXPECT_EQ(admin.number("select conch.version()"), 1);
  program_of_0_2_0 holder{server(), 'a'}, waiter{server(), 'b'};
  std::string const granted = holder.acquire(key);
  ASSERT_TRUE(granted.starts_with("{1,") || granted.find(',') == std::string::npos) << granted;
  EXPECT_TRUE(waiter.acquire(key).starts_with("{0,"));
  EXPECT_TRUE(holder.acquire_permit(permits).starts_with("{1,"));
  std::string const before = rows(), fence = admin.ask("select owner_fence from conch.lock where key = " + key);

  auto const body = [&]() -> asio::awaitable<void> {
    client now{w.ctx.get_executor(), settings()};
    mutex first{now, "other"}, kept{now, "kept"};
    hold const h = co_await first.async_acquire();
    EXPECT_EQ(admin.number("select conch.version()"), postgresql::schema_version);
    EXPECT_EQ(rows(), before);
    EXPECT_EQ(second(holder.renew(key, fence)), "1");

    hold last;
    kept.async_acquire([&](error_code ec, hold got) {
      EXPECT_FALSE(ec) << ec.message();
      last = std::move(got);
    });
    auto const both_wait = [&] { return admin.number("select count(*) from conch.line where key = " + key) == 2; };
    co_await until(both_wait, "the new client behind that of 0.2.0");
    waiter.notified();
    holder.release(key);
    EXPECT_EQ(owner(), waiter.id()) << "in the order in which they came";
    EXPECT_GE(waiter.notified(), 1);
    std::string const second_fence = admin.ask("select owner_fence from conch.lock where key = " + key);
    EXPECT_GT(std::stoll(second_fence), std::stoll(fence));
    EXPECT_EQ(second(waiter.renew(key, second_fence)), "1");
    EXPECT_FALSE(last.valid());
    waiter.release(key);
    auto const is_granted = [&] { return last.valid(); };
    co_await until(is_granted, "the new client");
    EXPECT_GT(admin.number("select owner_fence from conch.lock where key = " + key), std::stoll(second_fence));
  };
  w.run(body, 60s);
  EXPECT_EQ(admin.number("select count(*) from conch.part where key = " + permits), 1);
}

TEST_F(PostgresqlUpgrade, GivesARoleEachRightOnNewTablesThatItLacks) {
  admin.ask(schema_of("0.2.0"));
  admin.ask("create role shop");
  admin.ask(
      "grant usage on schema conch to shop; grant select, insert, update, delete on all tables in schema conch to "
      "shop");
  admin.ask("alter default privileges in schema conch grant select on tables to shop");
  std::string const tables =
      "select count(*) from pg_class t where t.relnamespace = 'conch'::regnamespace and t.relkind = 'r'";
  auto const before = admin.number(tables);
  admin.ask("begin;" + std::string{postgresql::schema()} + ";commit");
  EXPECT_GT(admin.number(tables), before);
  for (char const* const right : {"select", "insert", "update", "delete"})
    EXPECT_EQ(admin.number(tables + " and not has_table_privilege('shop', t.oid, '" + right + "')"), 0) << right;
  admin.ask("drop owned by shop; drop role shop");
}

/// Otherwise it would create its own schema over the present one.
TEST_F(PostgresqlUpgrade, AProgramOf020ConnectsToASchemaThatWasMadeNowAndItsOrdersWork) {
  admin.ask("begin;" + std::string{postgresql::schema()} + ";commit");
  program_of_0_2_0 holder{server(), 'a'}, operator_{server(), 'b'};
  holder.acquire(key);
  std::string const fence = admin.ask("select owner_fence from conch.lock where key = " + key);
  EXPECT_TRUE(operator_.run("ask(" + key + "," + fence + ",'b')").starts_with("{1,"));
  EXPECT_TRUE(operator_.run("ask(" + key + ",0,'b')").starts_with("{1,")) << "all owners";
  EXPECT_EQ(holder.run("asked(" + key + "," + fence + ")"), "{1}");
  EXPECT_TRUE(operator_.run("force(" + key + ",3000,60000," + fence + "+1)").starts_with("{0,")) << "of nobody";
  EXPECT_EQ(owner(), holder.id());
  EXPECT_TRUE(operator_.run("force(" + key + ",3000,60000," + fence + ")").starts_with("{1,"));
  holder.acquire(key);
  EXPECT_TRUE(operator_.run("force(" + key + ",3000,60000,0)").starts_with("{1,")) << "all owners";
}

/// A changed function under a number that is already released leaves some databases with the old one.
TEST(PostgresqlSchema, ChangesWithItsVersionOnly) {
  std::uint64_t digest = 14695981039346656037u;  // FNV-1a, of everything but comments
  std::istringstream lines{std::string{postgresql::schema()}};
  for (std::string line; std::getline(lines, line);) {
    auto const begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line.compare(begin, 2, "--") == 0) continue;
    for (char const c : line.substr(begin)) digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  EXPECT_EQ(digest, 15131706573598206763u) << "raise conch.version() in sql/1_tables.sql and schema_version in "
                                              "src/servers/postgresql/schema.hpp, then write the digest here";
  EXPECT_EQ(postgresql::schema_version, 6);
}

}  // namespace
}  // namespace conch::test
