#include "sim/worlds/zookeeper_lock_plan.hpp"

#include "engine/levels.hpp"

#include <string>

namespace conch::sim {

namespace {

using engine::permit_kind;

constexpr permit_kind kinds[] = {permit_kind::semaphore, permit_kind::semaphore, permit_kind::shared,
                                 permit_kind::shared,    permit_kind::reentrant, permit_kind::reentrant,
                                 permit_kind::none};

permit_kind draw_kind(random_source& r) { return kinds[r.below(std::size(kinds))]; }

std::uint32_t draw_limit(random_source& r) {
  return static_cast<std::uint32_t>(r.chance(80) ? r.between(1, 4) : r.between(5, 12));
}

}  // namespace

zookeeper_lock_plan draw_zookeeper_lock(random_source& r) {
  zookeeper_lock_plan p;
  p.kind = draw_kind(r);
  p.limit = draw_limit(r);
  p.owners = static_cast<int>(r.between(1, 3));
  p.owners_everywhere = r.chance(15);
  if (r.chance(25)) p.of_other_limit = static_cast<int>(r.between(5, 50));
  p.other_limit = draw_limit(r);
  if (r.chance(15)) p.of_other_kind = static_cast<int>(r.between(2, 30));
  p.other_kind = draw_kind(r);
  return p;
}

engine::permit draw_permit(zookeeper_lock_plan const& p, std::string_view client, random_source& r) {
  permit_kind const kind = r.chance(p.of_other_kind) ? p.other_kind : p.kind;
  switch (kind) {
    case permit_kind::semaphore: {
      std::uint32_t const limit = r.chance(p.of_other_limit) ? p.other_limit : p.limit;
      // more than all is all
      auto const weight = r.chance(60) ? 1 : r.chance(90) ? r.between(1, limit) : limit + r.between(1, 3);
      return {.kind = kind, .limit = limit, .weight = static_cast<std::uint32_t>(weight)};
    }
    case permit_kind::shared:
      return engine::permit_of_level(kind, {}, r.chance(35) ? engine::level_use::write : engine::level_use::read);
    case permit_kind::reentrant: {
      std::string const owner = (p.owners_everywhere ? std::string{} : std::string{client}) + " owner " +
                                std::to_string(r.between(1, p.owners));
      return engine::permit_of_level(kind, owner, engine::level_use::write);
    }
    default: return {};
  }
}

}  // namespace conch::sim
