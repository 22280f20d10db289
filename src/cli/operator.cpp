// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "cli/operator.hpp"

#include <conch/mutex.hpp>

#include <boost/system/system_error.hpp>

#include <chrono>
#include <utility>

namespace conch::cli {

namespace {

config settings_of(connection const& servers, std::string const& url, log_hook log) {
  config c = servers.at(url);
  c.log = std::move(log);
  c.label = "";                                 // it holds nothing
  c.offline_timeout = std::chrono::seconds{3};  // a caller waits for the answer
  return c;
}

}  // namespace

void require_valid(connection const& servers) {
  asio::io_context context{1};
  client const made{context.get_executor(), servers.settings};
}

operator_client::operator_client(connection const& servers, std::string const& url, log_hook log)
    : client_{context_.get_executor(), settings_of(servers, url, std::move(log))} {}

void operator_client::wait_for(bool const& done) {
  context_.restart();
  while (!done && context_.run_one() != 0) {
  }
}

template <class Result, class Ask>
Result operator_client::answer_to(Ask const& ask) {
  bool done = false;
  error_code why;
  Result result{};
  ask([&](error_code e, Result r) {
    done = true;
    why = e;
    result = std::move(r);
  });
  wait_for(done);
  if (why) throw boost::system::system_error{why};
  return result;
}

lock_status operator_client::inspect(std::string const& name) {
  return answer_to<lock_status>([&](auto handler) { mutex{client_, name}.async_inspect(std::move(handler)); });
}

std::vector<std::optional<lock_status>> operator_client::inspect(std::vector<std::string> const& names) {
  std::vector<std::optional<lock_status>> all(names.size());
  std::size_t left = names.size();
  bool done = names.empty();
  error_code why;
  for (std::size_t i = 0; i < names.size(); ++i) {
    mutex{client_, names[i]}.async_inspect([&, i](error_code e, lock_status s) {
      if (e && e != errc::wrong_type) why = e;
      if (!e) all[i] = std::move(s);
      done = --left == 0;
    });
  }
  wait_for(done);
  if (why) throw boost::system::system_error{why};
  return all;
}

wait_chain operator_client::why(std::string const& name) {
  return answer_to<wait_chain>([&](auto handler) { mutex{client_, name}.async_why(std::move(handler)); });
}

std::uint32_t operator_client::force_release(std::string const& name, std::optional<std::int64_t> fence) {
  mutex const lock{client_, name};
  return answer_to<std::uint32_t>([&](auto handler) {
    if (fence) lock.async_force_release(*fence, std::move(handler));
    else lock.async_force_release(std::move(handler));
  });
}

}  // namespace conch::cli
