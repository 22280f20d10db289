// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <string_view>

namespace conch::postgresql {

/// The schema script: sql/*.sql one after the other, embedded by the build (cmake/embed_sql.cmake).
std::string_view schema() noexcept;

/// The question of sql/0_owners.sql, as an expression: the answer is a text, which is empty where only the role itself,
/// the database's owner and superusers control what is in the schema `conch`, and otherwise says what is wrong and what
/// to do. It runs nothing of that schema.
std::string_view owners_question() noexcept;

/// What conch.version() of that script answers. A server with a greater one is accepted: its functions accept what the
/// earlier ones accepted.
inline constexpr int schema_version = 6;

}  // namespace conch::postgresql
