// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/memory/connection.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <utility>
#include <variant>

namespace conch::memory {

namespace {

std::int64_t now_us() { return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

connection::connection(host& h, asio::any_io_executor on, std::string client_id, std::string const& store_name)
    : host_{h}, on_{on}, id_{std::move(client_id)}, store_{store::named(store_name)} {}

connection::~connection() { store_->unsubscribe(id_); }

void connection::send(protocol::command const& c) {
  if (std::holds_alternative<protocol::subscribe_command>(c)) store_->subscribe(id_, *this);
  store_->carry_out(c, id_, now_us(), [&](auto reply) {
    asio::post(on_, [this, keep = host_.keep(), reply = std::move(reply)]() mutable {
      host_.enter_and_complete([&](time_point now) {
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
    host_.enter_and_complete([&](time_point now) { events().connected_as({1, "memory", now_us(), now}, now); });
  });
}

/// The protocol has waited too long for an answer, which a stop of this process can cause. Does nothing: the answers still come, and count.
void connection::drop_connection(std::string_view) {}

void connection::shut_down() { store_->unsubscribe(id_); }

/// A command of another client calls this while the store is locked.
void connection::on_grant(protocol::pushed_grant const& g) {
  auto keep = host_.keep();
  if (keep == nullptr) return;  // about to be destroyed
  asio::post(on_, [this, keep = std::move(keep), name = std::string{g.name}, grant = protocol::pushed_grant{g}]() mutable {
    grant.name = name;
    host_.enter_and_complete([&](time_point now) { events().granted(grant, now); });
  });
}

/// As on_grant.
void connection::on_revoke(std::string_view name, engine::grant_id id) {
  auto keep = host_.keep();
  if (keep == nullptr) return;
  asio::post(on_, [this, keep = std::move(keep), name = std::string{name}, id] {
    host_.enter_and_complete([&](time_point now) { events().revoked(name, id, now); });
  });
}

/// As on_grant.
void connection::on_request(std::string_view name, engine::grant_id id) {
  auto keep = host_.keep();
  if (keep == nullptr) return;
  asio::post(on_, [this, keep = std::move(keep), name = std::string{name}, id] {
    host_.enter_and_complete([&](time_point now) { events().requested(name, id, now); });
  });
}

/// As on_grant.
void connection::on_end(std::string_view name, engine::grant_id id, std::chrono::milliseconds left) {
  auto keep = host_.keep();
  if (keep == nullptr) return;
  asio::post(on_, [this, keep = std::move(keep), name = std::string{name}, id, left] {
    host_.enter_and_complete([&](time_point now) { events().told_end(name, id, left, now); });
  });
}

/// As on_grant.
void connection::on_freed(std::string_view name, engine::grant_id id) {
  auto keep = host_.keep();
  if (keep == nullptr) return;
  asio::post(on_, [this, keep = std::move(keep), name = std::string{name}, id] {
    host_.enter_and_complete([&](time_point now) { events().freed(name, id, false, now); });
  });
}

}  // namespace conch::memory
