-- Rows by a list of values of one column: random ones, or always the same ones after the middle.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

twin.options {
  columns = {"Columns to select", "c"},
  key = {"Column that the list is for", "id"},
  range = {"Length of the list", 100},
  values = {"uniform, or middle for the fixed list after half the table size", "uniform"},
}

local points, values

-- The values for one event.
local function distribution(name)
  local range, half = sysbench.opt.range, math.floor(sysbench.opt.table_size / 2)
  if name == "uniform" then
    return function() return twin.uniforms(range) end
  elseif name == "middle" then
    local fixed = {}
    for i = 1, range do
      fixed[i] = half + i
    end
    return function() return fixed end
  end
  error(("'%s' is not uniform or middle"):format(name))
end

function thread_init()
  twin.connect()
  local opt = sysbench.opt
  local sql = "SELECT %s FROM sbtest1 WHERE %s IN (%s)"
  points = twin.prepare(sql:format(opt.columns, opt.key, twin.placeholders(opt.range)), twin.ints(opt.range))
  values = distribution(opt.values)
end

function event()
  points(values())
end
