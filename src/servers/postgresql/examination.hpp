// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "servers/probe.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What a PostgreSQL server's answers mean for locks. No I/O.
namespace conch::postgresql {

/// What one question about the server answers.
struct server_facts {
  std::string version;     // "15.14 (Debian 15.14-0+deb12u1)"
  int version_number = 0;  // 150014
  bool is_standby = false;
  bool is_pooled = false;  // another process answers than the one that was connected to
  bool fsync = true;
  bool synchronous_commit = true;
  std::int64_t connections = 0, most_connections = 0;
  std::optional<std::int64_t> oldest_transaction_s;  // none: there is no open one, or this role may not see others'
};

/// What another one answers about the schema `conch`.
struct schema_facts {
  bool is_there = false;
  bool may_create = false;              // this role could make it
  std::string owners_trouble;           // what owners_question() answers
  bool may_use = false;                 // USAGE on the schema
  std::vector<std::string> no_execute;  // functions that this role may not call
  std::vector<std::string> no_access;   // tables of which it lacks a right
  std::optional<int> version;           // none: it cannot be asked
};

std::vector<servers::finding> judge_server(server_facts const& f);
std::vector<servers::finding> judge_schema(schema_facts const& f, std::string const& role);

}  // namespace conch::postgresql
