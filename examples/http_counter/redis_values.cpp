#include "redis_values.hpp"

#include <memory>
#include <string_view>
#include <utility>

namespace http_counter {

namespace asio = boost::asio;

redis_values::redis_values(asio::io_context& ctx, redis_address address, std::chrono::milliseconds limit)
    : ctx_(ctx),
      address_(std::move(address)),
      limit_(limit) {}

namespace {

// Tokens exceed the 53 bits of Lua's numbers, so the script compares them as text: the longer one is greater.
constexpr std::string_view write_guarded = R"(
local seen = redis.call('GET', KEYS[2]) or ''
local own = ARGV[2]
if #seen > #own or (#seen == #own and seen > own) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], own)
return 1)";

}  // namespace

asio::awaitable<std::optional<std::string>> redis_values::get(std::string key) {
  std::string command = encode_command({"GET", key});
  resp2_reply reply = co_await run(std::move(command));
  if (reply.what == resp2_reply::kind::nothing) {
    co_return std::nullopt;
  }
  co_return std::move(reply.text);
}

asio::awaitable<void> redis_values::set(std::string key, std::string value) {
  std::string command = encode_command({"SET", key, value});
  co_await run(std::move(command));
}

asio::awaitable<bool> redis_values::set_guarded(std::string key, std::string value, std::int64_t fence) {
  std::string command = encode_command({"EVAL", write_guarded, "2", key, key + ":fence", value, std::to_string(fence)});
  resp2_reply const reply = co_await run(std::move(command));
  co_return reply.text == "1";
}

asio::awaitable<void> redis_values::remove(std::string key) {
  std::string command = encode_command({"DEL", key, key + ":fence"});
  co_await run(std::move(command));
}

asio::awaitable<void> redis_values::ping() {
  std::string command = encode_command({"PING"});
  co_await run(std::move(command));
}

asio::awaitable<resp2_reply> redis_values::run(std::string command) {
  auto connection = idle_.take();
  if (connection == nullptr) {
    connection = std::make_shared<redis_connection>(ctx_, address_);
  }
  resp2_reply reply;
  try {
    auto exchange = redis_connection::exchange(connection, std::move(command), limit_);
    reply = co_await std::move(exchange);
  } catch (store_error const&) {
    idle_.drop_all();
    throw;
  } catch (resp2_error const& error) {
    idle_.drop_all();
    throw store_error(error.what());
  }
  idle_.give_back(connection);
  if (reply.what == resp2_reply::kind::error) {
    throw store_error("Redis: " + reply.text);
  }
  co_return reply;
}

}  // namespace http_counter
