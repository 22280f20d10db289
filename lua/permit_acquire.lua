-- Takes a part of a lock that has several owners, or stands in line for it.
-- KEYS lock queue fence
-- ARGV id mode(wait|try, with ! patient) lease claim retention ticket(0: none) not_after(0: none) kind(s|r|g|e) limit weight visited start
-- The limit is that of whoever comes first; it stays as long as anybody owns a part.
-- Answers {1 fence now segment} granted · {0 left now ticket} in line · {2 left now} busy · {3 0 now} too late to be done
-- In line or busy, a fifth number if this script passed something on: 1 if somebody waits behind its new owners
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local wait, patient = string.sub(ARGV[2], 1, 4) == 'wait', string.sub(ARGV[2], -1) == '!'
local id, lease, claim, retention = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local ticket, not_after = tonumber(ARGV[6]), tonumber(ARGV[7])
local kind, asked_limit, weight, visited, start = ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[11], tonumber(ARGV[12])
local limit = asked_limit
-- @include lib/lock.lua

if not_after > 0 and now > not_after then
  return {3, 0, now}
end
-- @include lib/permits.lua

if mine then
  extend_part(lease)
  admit(nil, 0, 0)
  return {1, mine.fence, now, mine.segment}
end

local nobody_waits = redis.call('EXISTS', queue_key) == 0
local passed_on
if not nobody_waits then
  local again = ticket > 0
  if wait then
    ticket = enqueue(entry, ticket, math.max(redis.call('PTTL', lock_key), claim), lease)
  end
  -- A dead client at the head of the line may be too large to get its turn soon, and must not keep the others from
  -- theirs. Whoever asks again, because a lease should be over, finds out; nothing is sent for it otherwise.
  while again and not patient do
    local head = redis.call('ZRANGE', queue_key, 0, 0)[1]
    if not head or head == entry or reach(string.match(head, '^%S+'), '') then
      break
    end
    redis.call('ZREM', queue_key, head)
  end
  if patient and used >= limit then
    awaited(id, 0)  -- nobody yet, but they are told to come: who has it may never give it back
  end
  local fence, segment, others, more, absent = admit(id, lease, 0)
  if fence then
    return {1, fence, now, segment}
  end
  passed_on = others > 0 and (more and 1 or 0) or nil
  local soon = absent and 20
  if wait then
    return {0, soon or left(), now, ticket, passed_on}
  end
  if soon then
    return {2, soon, now}
  end
  nobody_waits = not more
end

-- Where there are segments those who wait want none of what is free now; of a reentrant lock they are not its owner.
local segment = (nobody_waits or kind == 'g' or kind == 'e') and fit(weight, visited, start)
if segment then
  local fence = next_fence(0)
  own_part(id, math.min(weight, limit), fence, 'h', lease, segment, visited)
  return {1, fence, now, segment}
end
local sleep = left()
if not wait then
  return {2, sleep, now, 0, passed_on}
end
return {0, sleep, now, enqueue(entry, ticket, math.max(redis.call('PTTL', lock_key), claim), lease)}
