-- Rows by a range of values of one column: both ends in, so one value more than --range.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

twin.options {
  columns = {"Columns to select", "c"},
  key = {"Column that the range is of", "id"},
  range = {"Distance from the first value to the last", 100},
}

local between

function thread_init()
  twin.connect()
  local sql = "SELECT %s FROM sbtest1 WHERE %s BETWEEN ? AND ?"
  between = twin.prepare(sql:format(sysbench.opt.columns, sysbench.opt.key), twin.INT, twin.INT)
end

function event()
  local first = twin.uniform()
  between {first, first + sysbench.opt.range}
end
