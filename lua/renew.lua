-- Extends the leases of many locks, never shortens one. A bad key fails alone.
-- KEYS lock...   ARGV id lease, for each
-- Answers {now, result...}: 1 extended, 0 not mine, -1 could not be read or written
-- @include lib/time.lua
local answer = {now}
for i, key in ipairs(KEYS) do
  local id, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    answer[i + 1] = -1
  elseif not value or string.sub(value, 1, #id + 1) ~= id .. ' ' then
    answer[i + 1] = 0
  else
    local left = redis.call('PTTL', key)
    local done = 1
    if string.sub(value, -1) == 'c' then
      done = redis.pcall('SET', key, string.sub(value, 1, -2) .. 'h', 'PX', math.max(left, lease))
    elseif left < lease then
      done = redis.pcall('PEXPIRE', key, lease)
    end
    answer[i + 1] = (type(done) == 'table' and done.err) and -1 or 1
  end
end
return answer
