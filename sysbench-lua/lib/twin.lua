-- What the twins share: options, the connection, prepared statements, random values, the table.

local twin = {}

-- Templates of random texts: every # becomes a digit. The texts of columns c and pad.
twin.C = ("###########-"):rep(9) .. "###########"
twin.PAD = ("###########-"):rep(4) .. "###########"

-- int8 in PostgreSQL's protocol.
twin.INT = sysbench.sql.type.BIGINT

local connection

------------------------------------------------------------------------------------------ options

sysbench.cmdline.options = {
  table_size = {"Rows that the table was loaded with; ids and values of k are drawn from 1 to this", 10000},
}

-- Adds options of one twin: name = {description, default}.
function twin.options(options)
  for name, option in pairs(options) do
    sysbench.cmdline.options[name] = option
  end
end

--------------------------------------------------------------------------------------- connection

function twin.connect()
  connection = sysbench.sql.driver():connect()
end

function thread_done()
  connection:disconnect()
end

-- Sends SQL as it is, by the simple protocol.
function twin.query(sql)
  connection:query(sql)
end

-- Global, for what is loaded after a twin and has no other way to its connection.
twin_query = twin.query

-- Prepares a statement on the server. `sql` has a ? for every parameter; their kinds follow: INT, or
-- the template of a text. Returns a function that executes the statement: it takes a list of the
-- integers, in order, and draws the texts afresh.
function twin.prepare(sql, ...)
  local statement = connection:prepare(sql)
  local kinds, params = {...}, {}
  for i, kind in ipairs(kinds) do
    if kind == twin.INT then
      params[i] = statement:bind_create(twin.INT)
    else
      params[i] = statement:bind_create(sysbench.sql.type.VARCHAR, #kind)
    end
  end
  if #params > 0 then
    statement:bind_param(unpack(params))
  end

  return function(integers)
    local used = 0
    for i = 1, #params do
      if kinds[i] == twin.INT then
        used = used + 1
        params[i]:set(integers[used])
      else
        params[i]:set_rand_str(kinds[i])
      end
    end
    statement:execute()
  end
end

-- The text of `count` placeholders for an IN list.
function twin.placeholders(count)
  return ("?,"):rep(count - 1) .. "?"
end

-- The kinds of `count` integers.
function twin.ints(count)
  local kinds = {}
  for i = 1, count do
    kinds[i] = twin.INT
  end
  return unpack(kinds)
end

------------------------------------------------------------------------------------ random values

-- A uniform integer from 1 to `over`, or to the size of the table. --rand-type does not matter.
function twin.uniform(over)
  return sysbench.rand.uniform(1, over or sysbench.opt.table_size)
end

-- A list of `count` uniform integers.
function twin.uniforms(count)
  local values = {}
  for i = 1, count do
    values[i] = twin.uniform()
  end
  return values
end

-- Draws integers from 1 to `n`, r with a chance in proportion to r^-exponent, by rejection inversion
-- (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
-- distributions", 1996). Not every sysbench has such a distribution.
local function zipfian(n, exponent)
  local function density(x)
    return x ^ -exponent
  end
  local function integral(x)
    if exponent == 1 then
      return math.log(x)
    end
    return (x ^ (1 - exponent) - 1) / (1 - exponent)
  end
  local function inverse(y)
    if exponent == 1 then
      return math.exp(y)
    end
    return (1 + y * (1 - exponent)) ^ (1 / (1 - exponent))
  end

  local first = integral(1.5) - 1
  local last = integral(n + 0.5)
  local squeeze = 2 - inverse(integral(2.5) - density(2))
  return function()
    while true do
      local y = last + sysbench.rand.uniform_double() * (first - last)
      local x = inverse(y)
      local rank = math.min(math.max(math.floor(x + 0.5), 1), n)
      if rank - x <= squeeze or y >= integral(rank + 0.5) - density(rank) then
        return rank
      end
    end
  end
end

-- The function behind the name of a distribution: uniform, uniform(N) or zipfian(EXPONENT).
function twin.distribution(name)
  if name == "uniform" then
    return twin.uniform
  end
  local kind, argument = name:match("^(%l+)%(([%d.]+)%)$")
  argument = tonumber(argument)
  if kind == "uniform" and argument then
    return function() return twin.uniform(argument) end
  elseif kind == "zipfian" and argument then
    return zipfian(sysbench.opt.table_size, argument)
  end
  error(("'%s' is not uniform, uniform(N) or zipfian(EXPONENT)"):format(name))
end

---------------------------------------------------------------------------------------- the table

local function load_table()
  twin.connect()
  twin.query([[
CREATE TABLE sbtest1 (
  id SERIAL,
  k INTEGER DEFAULT '0' NOT NULL,
  c CHAR(120) DEFAULT '' NOT NULL,
  pad CHAR(60) DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
)]])
  connection:bulk_insert_init("INSERT INTO sbtest1 (k, c, pad) VALUES")
  for _ = 1, sysbench.opt.table_size do
    local row = ("(%d, '%s', '%s')"):format(
      twin.uniform(), sysbench.rand.string(twin.C), sysbench.rand.string(twin.PAD))
    connection:bulk_insert_next(row)
  end
  connection:bulk_insert_done()
  twin.query("CREATE INDEX k_1 ON sbtest1(k)")
  twin.query("VACUUM ANALYZE sbtest1")
  connection:disconnect()
end

local function drop_table()
  twin.connect()
  twin.query("DROP TABLE IF EXISTS sbtest1")
  connection:disconnect()
end

sysbench.cmdline.commands = {
  prepare = {load_table},
  cleanup = {drop_table},
}

return twin
