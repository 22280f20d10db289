-- Extends the leases of many parts of locks, never shortens one. A bad key fails alone.
-- KEYS lock...   ARGV id lease, for each
-- Answers {now, result...}: 1 extended, 0 not mine, -1 could not be read or written
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answer = {now}
for i, key in ipairs(KEYS) do
  local id, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local value = redis.pcall('HGET', key, id)
  if type(value) == 'table' then
    answer[i + 1] = -1
  else
    local weight, fence, ends, segment = string.match(value or '', '^(%d+) (%d+) [hc] (%d+) (%d+)$')
    if not weight or tonumber(ends) <= now then
      answer[i + 1] = 0
    else
      local until_then = string.format('%.0f', math.max(tonumber(ends), now + lease * 1000))
      local done = redis.pcall('HSET', key, id, weight .. ' ' .. fence .. ' h ' .. until_then .. ' ' .. segment)
      if type(done) ~= 'table' and redis.call('PTTL', key) < lease then
        redis.call('PEXPIRE', key, lease)
      end
      answer[i + 1] = type(done) == 'table' and -1 or 1
    end
  end
end
return answer
