local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local clock = now - 1577836800000000
local function text(number)
return string.format('%.0f', number)
end
local function keep_fence(key, fence, kept_for)
pcall(function()
local before = tonumber(redis.call('GET', key) or 0) or 0
local lives = kept_for + math.max(0, math.ceil((math.max(before, fence) - clock) / 1000))
if before < fence then
redis.call('SET', key, text(fence), 'PX', text(lives))
elseif redis.call('PTTL', key) < lives then
redis.call('PEXPIRE', key, text(lives))
end
end)
end
local count = math.floor(#ARGV / 2)
local retention = #ARGV > 2 * count and tonumber(ARGV[#ARGV])
local pcall, find, byte = redis.pcall, string.find, string.byte
local readonly
local function extend(key, id, lease)
local value = pcall('GET', key)
if type(value) == 'table' then return find(value.err, 'WRONGTYPE', 1, true) and 0 or -1 end
if not value or string.sub(value, 1, #id + 1) ~= id .. ' ' then return 0 end
local left = redis.call('PTTL', key)
local done = 1
if string.sub(value, -1) == 'c' then
done = pcall('SET', key, string.sub(value, 1, -2) .. 'h', 'PX', math.max(left, lease))
elseif left < lease then
done = pcall('PEXPIRE', key, lease)
end
if type(done) ~= 'table' or not done.err then return 1 end
readonly = readonly or find(done.err, 'READONLY', 1, true)
return -1
end
local values = redis.REDIS_VERSION_NUM and pcall('MGET', unpack(KEYS, 1, count)) or {}
local answer = {now}
for i = 1, count do
local key = KEYS[i]
local id, lease, value = ARGV[2 * i - 1], ARGV[2 * i], values[i]
local usual = value and find(value, id, 1, true) == 1 and byte(value, #id + 1) == 32 and byte(value, -1) == 104
answer[i + 1] = usual and pcall('PEXPIRE', key, lease, 'GT') == 1 and 1 or extend(key, id, tonumber(lease))
if retention and answer[i + 1] == 1 then
keep_fence(KEYS[count + i], tonumber(string.match(value or redis.call('GET', key), ' (%d+) [hc]$')), retention)
end
end
return readonly and redis.error_reply('READONLY the server is a replica now') or answer
