-- Shows the owners of a lock, the clients that asked for it, and those that wait. Changes nothing.
-- KEYS lock queue requests
-- Answers {now, waiting, owners, taken, limit, kind(0: a mutex, else its letter)}, for the first 100 owners by their fences
-- {c1, c2, c3, c4, fence, left, weight, segment, state(1: confirmed)}: c1 to c4 are the 128 bits of CLIENT; and for those of them who were
-- asked to let go {number of the owner, c1, c2, c3, c4 of the asking client, when}. If there are more than 1000 owners, none is named.
-- For the first 100 waiters follows {0, c1, c2, c3, c4, since when, weight}.
local lock_key, queue_key, requests_key = KEYS[1], KEYS[2], KEYS[3]
-- @include lib/lock.lua
-- @include lib/owners.lua
local waiting = redis.call('ZCARD', queue_key)
local owners = owners_of(lock_key)
if not owners then
  return not_a_lock()
end

local answer = {now, waiting, owners.held, owners.taken, owners.limit, owners.kind}
local function add_client(client)
  for word = 1, 4 do
    answer[#answer + 1] = tonumber(string.sub(client, 8 * word - 7, 8 * word), 16) or 0
  end
end
local named = math.min(#owners.all, 100)
for i = 1, named do
  local owner = owners.all[i]
  add_client(string.match(owner.id, '^[^.]*'))
  for _, what in ipairs({'fence', 'left', 'weight', 'segment'}) do
    answer[#answer + 1] = owner[what]
  end
  answer[#answer + 1] = owner.state == 'h' and 1 or 0
end
for i = 1, redis.call('EXISTS', requests_key) == 1 and named or 0 do
  local asker, when = string.match(redis.call('HGET', requests_key, text(owners.all[i].fence)) or '', '^(%w+) (%d+)$')
  if asker then
    answer[#answer + 1] = i
    add_client(asker)
    answer[#answer + 1] = tonumber(when)
  end
end
for place, entry in ipairs(redis.call('ZRANGE', queue_key, 0, 99, 'WITHSCORES')) do
  if place % 2 == 0 then
    answer[#answer - 1] = tonumber(entry)
  else
    local client, weight = string.match(entry, '^([^.]*)%S* ?(%d*)')
    answer[#answer + 1] = 0
    add_client(client)
    answer[#answer + 1] = 0
    answer[#answer + 1] = tonumber(weight) or 1
  end
end
return answer
