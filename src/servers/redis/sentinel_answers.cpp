// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/redis/sentinel_answers.hpp"

#include "base/readable.hpp"
#include "servers/redis/questions.hpp"
#include "servers/redis/topology/address_map.hpp"
#include "servers/redis/topology/sentinel_talk.hpp"

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <string_view>

namespace conch::redis {

namespace {

error_code not_a_sentinel(address const& where) {
  return make_error_code(errc::server_refused,
                         where.shown() + ": this is not a Sentinel; the URL of a server begins with redis://");
}

/// [host, port], or null.
sentinel_answer read_master(reply const& r, config const& settings, address const& sentinel) {
  sentinel_answer read;
  if (r.nodes()[0].what == resp::kind::null) return read;
  auto const named = read_named_master(r.nodes());
  if (!named) {
    read.why = make_error_code(errc::protocol, sentinel.shown() + ": the answer is not the address of a master");
    return read;
  }
  read.host = named->host;
  read.port = named->port;
  map_address(settings.address_map, read.host, read.port);
  return read;
}

sentinel_answer ask_sentinel(config const& ours, address const& where, std::string const& master) {
  questions sentinel{ours, where, questions::short_limit};
  reply const r = sentinel.ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master});
  if (r.is_error() && r.text().find("unknown command") != std::string_view::npos) return {.why = not_a_sentinel(where)};
  if (r.is_error()) sentinel.refuse(r);
  return read_master(r, ours, where);
}

/// Its text, after its URL.
std::string said_by(address const& sentinel, sentinel_answer const& a) {
  return sentinel.shown() + ": " + (a.why ? reason_of(a.why, sentinel) : "does not know this name");
}

/// "master", or what else the server is.
std::string role_at(config const& settings, address const& where) {
  questions server{settings, where, questions::short_limit};
  reply const role = server.ask({"ROLE"});
  if (role.is_error()) return "master";  // the user may not ask; a client will see
  return role.items() == 0 ? "unknown" : readable(role.item(0));
}

}  // namespace

std::vector<sentinel_answer> ask_sentinels(config const& settings, sentinel_url const& url) {
  config const ours = settings_of_sentinels(settings);
  std::vector<sentinel_answer> answers;
  for (address const& one : url.sentinels) {
    try {
      answers.push_back(ask_sentinel(ours, one, url.server.master));
    } catch (boost::system::system_error const& error) {
      answers.push_back({.why = error.code()});
    }
  }
  return answers;
}

error_code no_master(sentinel_url const& url, std::vector<sentinel_answer> const& answers) {
  std::string said;
  for (std::size_t i = 0; i < answers.size(); ++i) said += (i == 0 ? "" : "; ") + said_by(url.sentinels[i], answers[i]);
  bool const not_known = std::any_of(answers.begin(), answers.end(), [](sentinel_answer const& a) { return !a.why; });
  bool const all_for_good =
      std::all_of(answers.begin(), answers.end(), [](sentinel_answer const& a) { return a.why != errc::unreachable; });
  errc what = errc::unreachable;
  if (not_known) what = errc::server_refused;
  else if (all_for_good) what = static_cast<errc>(answers.front().why.value());
  return make_error_code(what, "the master '" + url.server.master + "': " + said);
}

address find_master(config const& settings, sentinel_url const& url, std::vector<sentinel_answer> const& answers) {
  if (std::none_of(answers.begin(), answers.end(), [](sentinel_answer const& a) { return a.names_one(); }))
    throw boost::system::system_error{no_master(url, answers)};
  std::string said;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    sentinel_answer const& a = answers[i];
    said += i == 0 ? "" : "; ";
    if (!a.names_one()) {
      said += said_by(url.sentinels[i], a);
      continue;
    }
    address master = url.server;
    master.host = a.host;
    master.port = a.port;
    said += url.sentinels[i].shown() + ": names " + host_and_port(a.host, a.port) + ", ";
    try {
      std::string const role = role_at(settings, master);
      if (role == "master") return master;
      said += "whose role is " + role;
    } catch (boost::system::system_error const& error) {
      if (error.code() != errc::unreachable) throw;  // the password, the certificate: no other will do better
      said += reason_of(error.code(), master);
    }
  }
  throw boost::system::system_error{
      make_error_code(errc::unreachable, "the master '" + url.server.master + "': " + said)};
}

}  // namespace conch::redis
