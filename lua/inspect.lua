-- Who has a lock. Changes nothing.
-- KEYS lock queue
-- Answers {now, waiting, owners, taken, limit, kind(0: a mutex, else its letter)}, and for the first 100 owners by their fences
-- {c1, c2, c3, c4, fence, left, weight, segment, state(1: confirmed)}: c1 to c4 are the 128 bits of CLIENT. Of more than
-- 1000 owners none is named: that would keep the server from everybody else.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lock_key = KEYS[1]
local waiting = redis.call('ZCARD', KEYS[2])
local owners, taken, limit, kind = {}, 0, 1, 0

local function not_a_lock()
  return redis.error_reply('WRONGTYPE ' .. lock_key .. ' holds something that is not a lock')
end

if redis.call('TYPE', lock_key).ok ~= 'hash' then
  local value = redis.call('GET', lock_key)
  if value then
    local id, fence, state = string.match(value, '^(%S+) (%d+) ([hc])$')
    if not id then
      return not_a_lock()
    end
    owners[1] = {id = id, fence = tonumber(fence), state = state, left = redis.call('PTTL', lock_key), weight = 1, segment = 0}
    taken = 1
  end
else
  local sums = redis.call('HMGET', lock_key, 'k', 'n', 'u')
  if not sums[1] or not sums[2] then
    return not_a_lock()
  end
  kind, limit, taken = string.byte(sums[1]), tonumber(sums[2]), tonumber(sums[3])
  local fields = redis.call('HLEN', lock_key)
  if fields > 1000 then
    return {now, waiting, fields - 4, taken, limit, kind}
  end
  local all = redis.call('HGETALL', lock_key)
  taken = 0
  for i = 1, #all, 2 do
    local weight, fence, state, ends, segment = string.match(all[i + 1], '^(%d+) (%d+) ([hc]) (%d+) (%d+)$')
    if weight and tonumber(ends) > now then
      owners[#owners + 1] = {id = all[i], fence = tonumber(fence), state = state, left = math.ceil((tonumber(ends) - now) / 1000),
                             weight = tonumber(weight), segment = tonumber(segment)}
      taken = taken + tonumber(weight)
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
