-- TIME is read once: a script must see one moment only.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- What fences are counted from: µs since 2020-01-01.
local clock = now - 1577836800000000

-- Whole numbers as text: tostring and .. lose digits above 10^14.
local function text(number)
  return string.format('%.0f', number)
end
