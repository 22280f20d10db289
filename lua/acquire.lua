-- Takes the lock, or stands in line for it.
-- KEYS lock queue fence   ARGV id mode(wait|try) lease claim retention ticket(0: none) not_after(0: none)
-- Answers {1 fence now} granted · {0 left now ticket} in line · {2 left now} busy · {3 0 now} too late to be done
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local id, wait, lease, claim, retention = ARGV[1], ARGV[2] == 'wait', tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local ticket, not_after = tonumber(ARGV[6]), tonumber(ARGV[7])
-- @include lib/lock.lua

if not_after > 0 and now > not_after then
  return {3, 0, now}
end

local value = redis.call('GET', lock_key)
if value then
  local owner, fence, state = parse(value)
  if not owner then
    return not_a_lock()
  end
  if owner == id then
    extend(lock_key, id, fence, state, lease)
    return {1, tonumber(fence), now}
  end
  local left = redis.call('PTTL', lock_key)
  if not wait then
    return {2, left, now}
  end
  return {0, left, now, enqueue(id, ticket, left, lease)}
end

if redis.call('EXISTS', queue_key) == 1 then
  if wait then
    ticket = enqueue(id, ticket, claim, lease)
  end
  local fence, taken = pass_on(id, lease, 0)
  if fence then
    return {1, fence, now}
  end
  if taken then
    return wait and {0, claim, now, ticket} or {2, claim, now}
  end
end

local fence = next_fence(0)
own(id, fence, 'h', lease)
return {1, fence, now}
