-- Passing a mutex on, on top of lib/lock.lua. The caller also defines claim.
-- @include lib/reach.lua

-- Gives the free lock to the first in the queue whose client receives the grant, and only then records it as the owner:
-- an owner that was not told would hold the lock for nothing. Answers the fence if that is `me` (told by the reply
-- of this very script), else the present owner, if any; without one, whether the queue has clients that it has not come to. Then how many have
-- left the queue.
local function pass_on(me, my_lease, floor, my_state)
  local fence, digits = next_fence(floor)
  for step = 1, most_steps do
    local head = redis.call('ZPOPMIN', queue_key)
    local id = head[1]
    if not id then
      return nil, false, false, step - 1
    end
    if id == me then
      own(id, digits, my_state or 'h', my_lease)
      return fence, id, false, step
    end
    local grant = id .. ' ' .. digits .. ' ' .. text(now) .. ' ' .. claim .. ' ' .. lock_key
    -- An entry with a blank belongs to a lock of another kind, whose client could not read this.
    if not string.find(id, ' ', 1, true) and reach(id, grant) then
      own(id, digits, 'c', claim)
      return nil, id, false, step
    end
  end
  return nil, false, redis.call('EXISTS', queue_key) == 1, most_steps
end
