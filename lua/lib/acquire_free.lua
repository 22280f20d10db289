-- The rest of an acquire, after ask() of lib/acquire.lua: for a lock that is free but has waiters, and for an asker before which the
-- first in the queue may not have reconnected. The caller also defines floor, state_of_mine.
-- @include lib/pass_on.lua

local function take()
  exact = true

  if confirmed then
    tell_end(queue_key, lease, 3) -- the next waiters know the lease of the previous owner
    return {1, confirmed, now}
  end
  if owner then
    awaited(id, 0)  -- nobody yet, but they are told to come: the owner may never give the lock back
    return rival({0, left, now, ticket}, owner, state)
  end

  if wait then
    ticket = enqueue(id, ticket, claim, lease)
  end
  local absent = patient and awaited(id, 1)
  if absent then
    local soon = 20
    return rival(wait and {0, soon, now, ticket} or {2, soon, now}, absent, 'c')
  end
  local fence, taken, unfinished = pass_on(id, lease, floor, state_of_mine)
  if unfinished then
    return {4, 0, now, wait and ticket or 0}
  end
  if taken and not fence then
    local answer = wait and {0, claim, now, ticket} or {2, claim, now, 0}
    if not proposal then
      answer[5] = redis.call('EXISTS', queue_key)
    end
    return rival(answer, taken, 'c')
  end
  if not taken then
    local digits
    fence, digits = next_fence(floor)
    own(id, digits, state_of_mine, lease)
  elseif not proposal then
    tell_end(queue_key, lease, 3) -- as above
  end
  return granted(fence, proposal)
end
