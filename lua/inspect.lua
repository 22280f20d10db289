-- Who has a lock. Changes nothing.
-- KEYS lock queue
-- Answers {now, waiting, owners, taken, limit, kind(0: a mutex, else its letter)}, and for the first 100 owners by their fences
-- {c1, c2, c3, c4, fence, left, weight, segment, state(1: confirmed)}: c1 to c4 are the 128 bits of CLIENT. Of more than
-- 1000 owners none is named: that would keep the server from everybody else.
local lock_key, queue_key = KEYS[1], KEYS[2]
-- @include lib/lock.lua
-- @include lib/part.lua
local waiting = redis.call('ZCARD', queue_key)
local owners, taken, limit, kind = {}, 0, 1, 0

if redis.call('TYPE', lock_key).ok ~= 'hash' then
  local value = redis.call('GET', lock_key)
  if value then
    local id, fence, state = parse(value)
    if not id then
      return not_a_lock()
    end
    owners[1] = {id = id, fence = tonumber(fence), state = state, left = redis.call('PTTL', lock_key), weight = 1, segment = 0}
    taken = 1
  end
else
  local letter
  local both = redis.call('HMGET', lock_key, 'sums', 'walked')
  letter, limit, taken = parse_sums(both[1])
  if not letter then
    return not_a_lock()
  end
  kind = string.byte(letter)
  local parts = redis.call('HLEN', lock_key) - (both[2] and 2 or 1)
  if parts > 1000 then
    return {now, waiting, parts, taken, limit, kind}
  end
  local all = redis.call('HGETALL', lock_key)
  taken = 0
  for i = 1, #all, 2 do
    local owner = parse_part(all[i + 1])
    if owner and owner.ends > now then
      owner.id, owner.left = all[i], math.ceil((owner.ends - now) / 1000)
      owners[#owners + 1] = owner
      taken = taken + owner.weight
    end
  end
end

table.sort(owners, function(a, b) return a.fence < b.fence end)
local answer = {now, waiting, #owners, taken, limit, kind}
for i = 1, math.min(#owners, 100) do
  local owner = owners[i]
  local client = string.match(owner.id, '^[^.]*')
  for word = 1, 4 do
    answer[#answer + 1] = tonumber(string.sub(client, 8 * word - 7, 8 * word), 16) or 0
  end
  for _, what in ipairs({'fence', 'left', 'weight', 'segment'}) do
    answer[#answer + 1] = owner[what]
  end
  answer[#answer + 1] = owner.state == 'h' and 1 or 0
end
return answer
