-- @include lib/clock.lua

-- Whole numbers as text: tostring and .. lose digits above 10^14.
local function text(number)
  return string.format('%.0f', number)
end
