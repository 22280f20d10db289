// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/memory/connection.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <utility>
#include <variant>

namespace conch::memory {

namespace {

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

connection::connection(host& h, asio::any_io_executor on, std::string client_id, std::string const& store_name)
    : host_{h},
      on_{on},
      id_{std::move(client_id)},
      store_{store::named(store_name)} {}

connection::~connection() { store_->unsubscribe(id_); }

void connection::send(protocol::command const& c) {
  if (std::holds_alternative<protocol::subscribe_command>(c)) store_->subscribe(id_, *this);
  store_->carry_out(c, id_, now_us(), [&](auto reply) {
    asio::post(on_, [this, keep = host_.keep(), reply = std::move(reply)]() mutable {
      host_.give([&](time_point now) {
        if (reply) {
          events().answered({.content = &*reply}, now);
        } else {
          events().answered({protocol::fault::wrong_type, "the name is that of another kind of lock"}, now);
        }
      });
    });
  });
}

void connection::want_connection() {
  if (std::exchange(wanted_, true)) return;
  asio::post(on_, [this, keep = host_.keep()] {
    host_.give([&](time_point now) { events().connected_as({1, "memory", now_us(), now}, now); });
  });
}

/// The protocol has waited too long for an answer, which a stop of this process can cause. Does nothing: the answers
/// still come, and count.
void connection::drop_connection(std::string_view) {}

void connection::shut_down() { store_->unsubscribe(id_); }

/// A command of another client calls this while the store is locked.
void connection::on_push(protocol::push const& p) {
  auto keep = host_.keep();
  if (keep == nullptr) return;  // about to be destroyed
  auto name = std::visit([](auto const& one) { return std::string{one.name}; }, p);
  asio::post(on_, [this, keep = std::move(keep), name = std::move(name), own = p]() mutable {
    std::visit([&](auto& one) { one.name = name; }, own);
    host_.give([&](time_point now) { events().pushed(own, now); });
  });
}

}  // namespace conch::memory
