-- Extends the leases of many parts of locks, never shortens one. A bad key fails alone.
-- KEYS lock...   ARGV id lease, for each
-- Answers {now, result...}: 1 extended, 0 not mine, -1 could not be read or written
-- @include lib/time.lua
-- @include lib/part.lua
local answer = {now}
for i, key in ipairs(KEYS) do
  local id, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local value = redis.pcall('HGET', key, id)
  local part = type(value) ~= 'table' and parse_part(value)
  if type(value) == 'table' then
    answer[i + 1] = -1
  elseif not part or part.ends <= now then
    answer[i + 1] = 0
  else
    part.state, part.ends = 'h', math.max(part.ends, now + lease * 1000)
    local done = redis.pcall('HSET', key, id, part_text(part))
    if type(done) ~= 'table' and redis.call('PTTL', key) < lease then
      redis.call('PEXPIRE', key, lease)
    end
    answer[i + 1] = type(done) == 'table' and -1 or 1
  end
end
return answer
