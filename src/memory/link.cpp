// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "memory/link.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <utility>
#include <variant>

namespace conch::memory {

namespace {

std::int64_t now_us() { return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

link::link(host& h, asio::any_io_executor on, std::string client_id, std::string const& store_name)
    : host_{h}, on_{on}, id_{std::move(client_id)}, store_{store::named(store_name)} {}

link::~link() { store_->unsubscribe(id_); }

void link::send(engine::command const& c) {
  bool const script = std::holds_alternative<engine::acquire_command>(c) || std::holds_alternative<engine::release_command>(c) ||
                      std::holds_alternative<engine::limit_command>(c);
  auto const queue = [&](std::vector<std::int64_t> numbers) {
    asio::post(on_, [this, keep = host_.keep(), script, numbers = std::move(numbers)] {
      host_.enter_and_complete([&](time_point now) {
        if (script && numbers.empty()) {
          events().answered({engine::fault::wrong_type, "the name is that of another kind of lock", {}}, now);
        } else {
          events().answered({engine::fault::none, {}, numbers}, now);
        }
      });
    });
  };
  if (std::holds_alternative<engine::subscribe_command>(c)) {
    store_->subscribe(id_, *this);
    queue({});
  } else if (std::holds_alternative<engine::prove_publish_command>(c)) {
    queue({1});
  } else {
    store_->carry_out(c, id_, now_us(), queue);
  }
}

void link::want_connection() {
  if (std::exchange(wanted_, true)) return;
  asio::post(on_, [this, keep = host_.keep()] {
    host_.enter_and_complete([&](time_point now) { events().connected_as({1, "memory", now_us(), now}, now); });
  });
}

/// The engine has waited too long, as after a stop of this process: the answers are still on their way and are taken.
void link::drop_connection(std::string_view) {}

void link::shut_down() { store_->unsubscribe(id_); }

/// Called by another client's command, with the store locked.
void link::on_grant(engine::pushed_grant const& g) {
  auto keep = host_.keep();
  if (keep == nullptr) return;  // about to be destroyed
  asio::post(on_, [this, keep = std::move(keep), name = std::string{g.name}, grant = engine::pushed_grant{g}]() mutable {
    grant.name = name;
    host_.enter_and_complete([&](time_point now) { events().granted(grant, now); });
  });
}

/// As on_grant.
void link::on_revoke(std::string_view name, engine::grant_id id) {
  auto keep = host_.keep();
  if (keep == nullptr) return;
  asio::post(on_, [this, keep = std::move(keep), name = std::string{name}, id] {
    host_.enter_and_complete([&](time_point now) { events().revoked(name, id, now); });
  });
}

}  // namespace conch::memory
