defmodule Tollgate.Hammer do
  @moduledoc """
  A backend of Hammer 7 that counts in a Tollgate service, so that all nodes share exact limits.

      defmodule MyApp.RateLimit do
        use Hammer, backend: Tollgate.Hammer
      end

      # In the supervision tree:
      {MyApp.RateLimit, url: "http://127.0.0.1:8080", on_failure: :open}

      # Allows 10 requests per second.
      MyApp.RateLimit.hit("user:123", _scale = :timer.seconds(1), _limit = 10)

  Each function is one request to `/v1/count` of the service, which needs `--caller-quotas`. This
  process decides nothing and keeps no counter. Windows are Hammer's `:fix_window`: they are aligned
  to the Unix epoch, by the clock of the service's store.

  ## Options of `use Hammer`

    * `:name` - the name of the counters, by default that of the module. Two modules with one name
      share their counters.

  ## Options of `start_link`

    * `:url` - `http://HOST:PORT`, `https://HOST:PORT` or `unix:/absolute/path`. The default is
      `TOLLGATE_URL`, then `http://127.0.0.1:8080`. `https` trusts the certificates of the system,
      or those of `:public_key.cacerts_load/1`.
    * `:token` - the token of a principal with the scope `count`. The default is `TOLLGATE_TOKEN`.
      Prefer the variable: a supervisor's report prints the options.
    * `:timeout` - milliseconds for a whole call, from 1 to 60,000. The default is 250.
    * `:on_failure` - what `hit` answers if the service does not: `:open` (the default) or `:closed`.
    * `:max_connections` - from 1 to 1,024. The default is 64. A further call waits for a connection
      within its own timeout.

  ## Without a decision

  `hit` returns `{:allow, 0}` if `:on_failure` is `:open`, and `{:deny, 1000}` if it is `:closed`.
  The other functions raise `Tollgate.Hammer.Error`, because every count would be wrong.
  `MyApp.RateLimit.failures()` counts failures by kind, and a warning is logged at most once a
  minute. No request is sent twice.
  """

  alias Tollgate.Hammer.{Connections, Failures, JSON}

  defmodule Error do
    @moduledoc "The service gave no count. `kind` is as in `docs/clients.md`."
    defexception [:kind, :detail]

    @impl true
    def message(error), do: "no count from Tollgate (#{error.kind}): #{error.detail}"
  end

  # The bounds of the service.
  @max_limit 2 ** 40 - 1
  @max_cost 2 ** 32 - 1
  @max_scale 10 * 366 * 24 * 60 * 60 * 1000
  # Fields that are left out.
  @defaults [{"cost", 1}, {"on_store_failure", "open"}]
  # Longer keys are counted by their hash, because the service refuses long attributes.
  @max_key 512

  defmacro __before_compile__(%{module: module}) do
    options = Module.get_attribute(module, :hammer_opts)
    name = options |> Keyword.get(:name, inspect(module)) |> checked_name()

    for {option, _} <- options, option not in [:backend, :name, :algorithm] do
      raise ArgumentError, "use Hammer, backend: Tollgate.Hammer has no option #{inspect(option)}"
    end

    unless Keyword.get(options, :algorithm, :fix_window) == :fix_window do
      raise ArgumentError,
            "Tollgate.Hammer has the algorithm :fix_window, not #{inspect(options[:algorithm])}"
    end

    quote do
      def child_spec(options) do
        %{id: __MODULE__, start: {__MODULE__, :start_link, [options]}, type: :worker}
      end

      def start_link(options \\ []) do
        Tollgate.Hammer.start_link(__MODULE__, unquote(name), options)
      end

      def hit(key, scale, limit, increment \\ 1) do
        Tollgate.Hammer.hit(__MODULE__, key, scale, limit, increment)
      end

      def inc(key, scale, increment \\ 1) do
        Tollgate.Hammer.inc(__MODULE__, key, scale, increment)
      end

      def set(key, scale, count), do: Tollgate.Hammer.set(__MODULE__, key, scale, count)
      def get(key, scale), do: Tollgate.Hammer.get(__MODULE__, key, scale)
      def expires_at(key, scale), do: Tollgate.Hammer.expires_at(__MODULE__, key, scale)

      @doc "Returns how many calls had no answer, by kind: `%{timeout: 2}`."
      def failures, do: Tollgate.Hammer.failures(__MODULE__)
    end
  end

  defp checked_name(name) do
    if is_binary(name) and name =~ ~r/\A[A-Za-z0-9_.-]{1,64}\z/ do
      name
    else
      raise ArgumentError,
            ":name must have 1 to 64 letters, digits, `-`, `_` and `.`, got: #{inspect(name)}"
    end
  end

  @doc "Starts the process that keeps the connections of this rate limiter."
  def start_link(module, name, options) do
    GenServer.start_link(Connections, {module, name, Connections.checked!(options)}, name: module)
  end

  @doc "Counts `increment`, also above the limit, and says whether the window then keeps the limit."
  def hit(module, key, scale, limit, increment) do
    check!(:limit, limit, 0..@max_limit)
    check!(:increment, increment, 0..@max_cost)
    config = config(module)

    fields = [
      {"quotas", ["#{limit}/#{written_scale(scale)}"]},
      {"cost", increment},
      {"on_store_failure", Atom.to_string(config.on_failure)}
    ]

    case count(config, key, fields) do
      {:ok, %{"allowed" => true} = answer} -> {:allow, Map.get(answer, "used", 0)}
      {:ok, %{"allowed" => false, "reset_after_ms" => time}} -> {:deny, time}
      {:ok, _} -> failed(config, :invalid, "an answer without `allowed`")
      {:error, kind, detail} -> failed(config, kind, detail)
    end
  end

  defp failed(config, kind, detail) do
    Failures.add(config, kind, detail)
    if config.on_failure == :open, do: {:allow, 0}, else: {:deny, 1000}
  end

  @doc "Counts `increment` without a limit, and returns the count of the window."
  def inc(module, key, scale, increment) do
    check!(:increment, increment, 0..@max_cost)
    used!(module, key, scale, [{"cost", increment}, {"on_store_failure", "closed"}])
  end

  @doc "Sets the count of the window, and returns it."
  def set(module, key, scale, count) do
    check!(:count, count, 0..@max_limit)
    used!(module, key, scale, [{"operation", "set"}, {"used", count}])
  end

  @doc "Returns the count of the window."
  def get(module, key, scale), do: used!(module, key, scale, [{"operation", "get"}])

  @doc "Returns the end of the window in Unix milliseconds, or 0 if nothing is counted in it."
  def expires_at(module, key, scale) do
    case answer!(module, key, scale, [{"operation", "get"}]) do
      %{"used" => 0} -> 0
      %{"window" => %{"end" => time}} -> time
    end
  end

  @doc "Returns how many calls had no answer, by kind."
  def failures(module), do: module |> config() |> Failures.counts()

  defp used!(module, key, scale, fields), do: answer!(module, key, scale, fields)["used"]

  defp answer!(module, key, scale, fields) do
    config = config(module)

    case count(config, key, [{"window", written_scale(scale)} | fields]) do
      {:ok, %{"used" => used, "window" => %{"end" => time}} = answer}
      when is_integer(used) and is_integer(time) ->
        answer

      {:ok, _} ->
        raise_failure(config, :invalid, "an answer without a count")

      {:error, kind, detail} ->
        raise_failure(config, kind, detail)
    end
  end

  defp raise_failure(config, kind, detail) do
    Failures.add(config, kind, detail)
    raise Error, kind: kind, detail: detail
  end

  defp count(config, key, fields) do
    {[{_, sent}]} = attributes = attributes(key)
    fields = [{"policy", config.name}, {"attributes", attributes} | fields -- @defaults]
    secrets = Enum.reject([sent, config.token], &is_nil/1)

    case Connections.exchange(config, JSON.encode({fields})) do
      {:ok, 200, body} -> object(body)
      {:ok, status, body} when status >= 500 -> {:error, :unavailable, detail(status, body, secrets)}
      {:ok, status, body} when status >= 300 -> {:error, :refused, detail(status, body, secrets)}
      {:ok, status, _} -> {:error, :invalid, "status #{status}"}
      {:error, kind, detail} -> {:error, kind, detail}
    end
  end

  defp object(body) do
    case JSON.decode(body) do
      {:ok, answer} when is_map(answer) -> {:ok, answer}
      _ -> {:error, :invalid, "an answer that is no JSON object"}
    end
  end

  defp detail(status, body, secrets) do
    with {:ok, %{"detail" => detail}} when is_binary(detail) <- JSON.decode(body),
         true <- String.valid?(detail) do
      "status #{status}, #{detail |> masked(secrets) |> line()}"
    else
      _ -> "status #{status}"
    end
  end

  # A problem may come from something between, which repeats its request.
  defp masked(detail, secrets) do
    # A value may be a part of another one.
    patterns = secrets |> Enum.sort_by(&byte_size/1, :desc) |> Enum.map(&pattern/1)
    patterns |> Enum.join("|") |> Regex.compile!("u") |> Regex.replace(detail, "***")
  end

  # Inside of a word, a short value is a part of the text.
  defp pattern(secret) when byte_size(secret) < 4 do
    "(?<![\\p{L}\\p{N}])#{Regex.escape(secret)}(?![\\p{L}\\p{N}])"
  end

  defp pattern(secret), do: Regex.escape(secret)

  # One line of a log, whatever the bytes are.
  defp line(text),
    do: text |> String.slice(0, 300) |> String.replace(~r/[\p{C}\p{Zl}\p{Zp}]/u, "?")

  # Other terms have an attribute of their own, so that `:a` and `"a"` are different keys, as in Hammer.
  defp attributes(key) do
    {attribute, text} =
      if is_binary(key) and key != "" and String.valid?(key) do
        {"key", key}
      else
        {"term", Base.encode64(:erlang.term_to_binary(key, [:deterministic, minor_version: 2]))}
      end

    if byte_size(text) > @max_key do
      {[{attribute <> "_sha256", Base.encode16(:crypto.hash(:sha256, text), case: :lower)}]}
    else
      {[{attribute, text}]}
    end
  end

  defp written_scale(scale) do
    check!(:scale, scale, 1..@max_scale)
    "#{scale}ms"
  end

  defp check!(argument, value, range) do
    unless is_integer(value) and value in range do
      raise ArgumentError,
            "#{argument} must be a whole number from #{range.first} to #{range.last}, " <>
              "got: #{inspect(value)}"
    end
  end

  defp config(module) do
    [config: config] = :ets.lookup(module, :config)
    config
  rescue
    ArgumentError ->
      reraise ArgumentError,
              "#{inspect(module)} is not started; add it to the supervision tree",
              __STACKTRACE__
  end
end

defmodule Tollgate.Hammer.Failures do
  @moduledoc "Counts calls without a decision of the service, and logs them at most once a minute."

  require Logger

  @kinds [:timeout, :connection, :unavailable, :refused, :invalid]
  @minute 60_000

  @doc "Returns the time of a last line that allows the next one at once."
  def new do
    logged = :atomics.new(1, signed: true)
    :atomics.put(logged, 1, now() - @minute)
    logged
  end

  def add(config, kind, detail) do
    for counter <- [{:failures, kind}, {:unlogged, kind}] do
      :ets.update_counter(config.table, counter, 1, {counter, 0})
    end

    :ets.insert(config.table, {:last_failure, kind, detail})
    log(config)
  rescue
    # The table has ended with its process.
    ArgumentError -> :ok
  end

  def counts(config) do
    for kind <- @kinds,
        [{_, count}] <- [:ets.lookup(config.table, {:failures, kind})],
        into: %{} do
      {kind, count}
    end
  end

  @doc "Logs what was not logged yet, if the last line is a minute old."
  def log(config) do
    last = :atomics.get(config.logged, 1)
    is_due = now() - last >= @minute and :ets.member(config.table, :last_failure)

    # Of several processes, one writes the line.
    if is_due and :atomics.compare_exchange(config.logged, 1, last, now()) == :ok do
      [{_, kind, detail}] = :ets.lookup(config.table, :last_failure)
      :ets.delete(config.table, :last_failure)

      kinds =
        for kind <- @kinds, [{_, count}] <- [:ets.take(config.table, {:unlogged, kind})] do
          "#{count} #{kind}"
        end

      Logger.warning(
        "calls of #{inspect(config.table)} without a decision of Tollgate: " <>
          "#{Enum.join(kinds, ", ")}; the last one: #{kind}, #{detail}"
      )
    end
  end

  defp now, do: System.monotonic_time(:millisecond)
end

defmodule Tollgate.Hammer.Connections do
  @moduledoc """
  The connections of one rate limiter, and one request over one of them.

  The process owns idle connections and lends each to one caller. Callers send and receive by
  themselves.
  """

  use GenServer

  alias Tollgate.Hammer.Failures

  @version "0.1.0"
  @max_idle 60_000
  @sweep 5_000
  @max_head 64 * 1024
  @max_body 1024 * 1024

  # Options.

  def checked!(options) do
    known = [
      url: System.get_env("TOLLGATE_URL", "http://127.0.0.1:8080"),
      token: System.get_env("TOLLGATE_TOKEN"),
      timeout: 250,
      on_failure: :open,
      max_connections: 64
    ]

    for {option, _} <- options, not Keyword.has_key?(known, option) do
      raise ArgumentError, "Tollgate.Hammer has no option #{inspect(option)}"
    end

    options = known |> Keyword.merge(options) |> Map.new()
    check!(:timeout, options.timeout, 1..60_000)
    check!(:max_connections, options.max_connections, 1..1024)

    unless options.on_failure in [:open, :closed] do
      raise ArgumentError, ":on_failure must be :open or :closed"
    end

    # The token itself appears in no message.
    unless options.token == nil or
             (is_binary(options.token) and options.token =~ ~r/\A[\x21-\x7e]+\z/) do
      raise ArgumentError, ":token must be a string of visible ASCII characters"
    end

    address = address!(options.url)
    if address.tls, do: certificates!()
    Map.merge(options, address)
  end

  # Loads them now: a call would fail without them.
  defp certificates! do
    :public_key.cacerts_get()
    :ok
  rescue
    _ ->
      reraise ArgumentError,
              ":url is https, and this host has no certificates to trust; install them, or call " <>
                ":public_key.cacerts_load/1 before",
              __STACKTRACE__
  end

  defp check!(option, value, range) do
    unless is_integer(value) and value in range do
      raise ArgumentError,
            "#{inspect(option)} must be a whole number from #{range.first} to #{range.last}, " <>
              "got: #{inspect(value)}"
    end
  end

  defp address!("unix:" <> path) do
    unless path =~ ~r/\A\/[^\/]/ and not (path =~ ~r/[\x00?#]/) and byte_size(path) <= 107 do
      raise ArgumentError,
            ":url must have an absolute path of at most 107 bytes after `unix:`, without `?` and `#`"
    end

    %{tls: false, host: "localhost", peer: {{:local, path}, 0}}
  end

  defp address!(url) when is_binary(url) do
    uri = parsed(url)

    unless uri.scheme in ["http", "https"] and host?(uri.host) and
             uri.port in 1..65_535 and uri.path in [nil, "/"] and uri.userinfo == nil and
             uri.query == nil and uri.fragment == nil do
      # It is not shown, because it may contain a password.
      raise ArgumentError,
            ":url must be http://HOST:PORT, https://HOST:PORT or unix:/absolute/path, without a " <>
              "user, a query or a path"
    end

    bracketed = if uri.host =~ ":", do: "[#{uri.host}]", else: uri.host
    peer = {String.to_charlist(uri.host), uri.port}
    %{tls: uri.scheme == "https", host: "#{bracketed}:#{uri.port}", peer: peer}
  end

  defp address!(_), do: raise(ArgumentError, ":url must be a string")

  defp host?(nil), do: false

  defp host?(host) do
    label = "[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?"
    name? = host =~ Regex.compile!("\\A#{label}(\\.#{label})*\\.?\\z")
    name? or match?({:ok, _}, host |> String.to_charlist() |> :inet.parse_ipv6strict_address())
  end

  # Without a scheme if it is no URL.
  defp parsed(url) do
    case URI.new(url) do
      {:ok, uri} -> uri
      {:error, _} -> %URI{}
    end
  end

  # The process.

  @impl true
  def init({module, name, options}) do
    :ets.new(module, [:named_table, :public, read_concurrency: true, write_concurrency: true])
    if options.tls, do: {:ok, _} = Application.ensure_all_started(:ssl)

    authorization =
      if options.token, do: ["Authorization: Bearer ", options.token, "\r\n"], else: []

    head = [
      "POST /v1/count HTTP/1.1\r\nHost: #{options.host}\r\nContent-Type: application/json\r\n",
      "User-Agent: tollgate-elixir/#{@version}\r\n",
      authorization
    ]

    config =
      Map.take(options, [:peer, :tls, :timeout, :on_failure, :token])
      |> Map.merge(%{table: module, name: name, pool: self(), logged: Failures.new()})
      |> Map.put(:head, IO.iodata_to_binary(head))

    :ets.insert(module, {:config, config})
    Process.send_after(self(), :sweep, @sweep)
    # Without the token: a crash report prints the state.
    {:ok, %{table: module, free: options.max_connections, idle: [], lent: %{}, waiting: []}}
  end

  @impl true
  def handle_call({:borrow, loan}, {caller, _} = from, state) do
    monitor = Process.monitor(caller)
    {:noreply, grant(%{state | waiting: state.waiting ++ [{loan, from, monitor}]})}
  end

  @impl true
  def handle_cast({:return, loan, connection}, state) do
    {:noreply, state |> finish(loan, connection) |> grant()}
  end

  def handle_cast({:made, loan, connection}, state) do
    {_, monitor} = Map.fetch!(state.lent, loan)
    {:noreply, put_in(state.lent[loan], {connection, monitor})}
  end

  def handle_cast({:cancel, loan}, state), do: {:noreply, state |> withdraw(loan) |> grant()}

  @impl true
  def handle_info({:DOWN, monitor, :process, _, _}, state) do
    of_caller = fn {_, _, theirs} -> theirs == monitor end
    lent = Enum.find_value(state.lent, fn {loan, {_, theirs}} -> theirs == monitor && loan end)
    loan = lent || with({loan, _, _} <- Enum.find(state.waiting, of_caller), do: loan)
    {:noreply, state |> withdraw(loan) |> grant()}
  end

  def handle_info(:sweep, state) do
    [config: config] = :ets.lookup(state.table, :config)
    Failures.log(config)
    Process.send_after(self(), :sweep, @sweep)
    {:noreply, close_old(state)}
  end

  # TLS may send us what a closed connection still had.
  def handle_info(_, state), do: {:noreply, state}

  # Lends an idle connection, or leave to make one, to those who wait.
  defp grant(%{waiting: [{loan, from, monitor} | waiting], free: free} = state) when free > 0 do
    {connection, state} =
      case close_old(state) do
        %{idle: [{connection, _} | idle]} = state -> {connection, %{state | idle: idle}}
        %{idle: []} = state -> {nil, state}
      end

    GenServer.reply(from, connection)
    lent = Map.put(state.lent, loan, {connection, monitor})
    grant(%{state | waiting: waiting, lent: lent, free: free - 1})
  end

  defp grant(state), do: state

  defp finish(state, loan, connection) do
    case Map.pop(state.lent, loan) do
      {{_, monitor}, lent} ->
        Process.demonitor(monitor, [:flush])
        idle = if connection, do: [{connection, now()} | state.idle], else: state.idle
        %{state | lent: lent, idle: idle, free: state.free + 1}

      {nil, _} ->
        if connection, do: close(connection)
        state
    end
  end

  # Ends a loan whose caller is gone or waits no longer. Nobody knows what the connection still has.
  defp withdraw(state, loan) do
    case state.lent do
      %{^loan => {connection, _}} ->
        if connection, do: close(connection)
        finish(state, loan, nil)

      _ ->
        {theirs, waiting} = Enum.split_with(state.waiting, fn {other, _, _} -> other == loan end)
        for {_, _, monitor} <- theirs, do: Process.demonitor(monitor, [:flush])
        %{state | waiting: waiting}
    end
  end

  defp close_old(state) do
    {idle, old} = Enum.split_while(state.idle, fn {_, since} -> now() - since < @max_idle end)
    for {connection, _} <- old, do: close(connection)
    %{state | idle: idle}
  end

  # The caller's side.

  @doc "Sends one request. Returns its status and body, or the kind of failure and a detail."
  def exchange(config, body) do
    deadline = now() + config.timeout
    loan = make_ref()

    case borrow(config.pool, loan, deadline) do
      {:ok, lent} ->
        request = [config.head, "Content-Length: #{byte_size(body)}\r\n\r\n", body]
        {answer, connection} = send_lent(config, loan, lent, request, deadline)
        GenServer.cast(config.pool, {:return, loan, connection})
        answer

      failure ->
        failure
    end
  end

  defp borrow(pool, loan, deadline) do
    {:ok, GenServer.call(pool, {:borrow, loan}, left(deadline))}
  catch
    :exit, {:timeout, _} ->
      # The connection may be granted at this moment.
      GenServer.cast(pool, {:cancel, loan})
      {:error, :timeout, "no connection was free in time"}

    :exit, _ ->
      {:error, :connection, "the process of the connections has ended"}
  end

  # Whatever happens, the loan ends.
  defp send_lent(config, loan, lent, request, deadline) do
    send_once(config, loan, lent, request, deadline)
  catch
    kind, reason ->
      GenServer.cast(config.pool, {:cancel, loan})
      :erlang.raise(kind, reason, __STACKTRACE__)
  end

  # Returns the answer, and the connection if it can be used again.
  defp send_once(config, loan, lent, request, deadline) do
    with {:ok, connection} <- open(config, loan, lent, deadline),
         {:ok, status, body, keep} <- converse(connection, request, deadline) do
      if keep do
        {{:ok, status, body}, connection}
      else
        close(connection)
        {{:ok, status, body}, nil}
      end
    else
      {:error, reason} -> {failure(reason), nil}
    end
  end

  defp failure(:timeout), do: {:error, :timeout, "no whole answer in time"}
  defp failure({:invalid, detail}), do: {:error, :invalid, detail}
  defp failure(reason), do: {:error, :connection, reason |> inspect() |> String.slice(0, 300)}

  defp converse({transport, socket} = connection, request, deadline) do
    result =
      with :ok <- transport.send(socket, request), do: receive_answer(connection, "", deadline)

    # A request that may have been sent is never sent again.
    if elem(result, 0) == :error, do: close(connection)
    result
  end

  # A connection that the service has closed meanwhile is replaced: nothing was sent on it.
  defp open(config, loan, {transport, socket} = connection, deadline) do
    case transport.recv(socket, 0, 0) do
      {:error, :timeout} ->
        {:ok, connection}

      _ ->
        close(connection)
        open(config, loan, nil, deadline)
    end
  end

  defp open(%{peer: {host, port}} = config, loan, nil, deadline) do
    options = [
      :binary,
      active: false,
      nodelay: not is_tuple(host),
      send_timeout: config.timeout,
      send_timeout_close: true
    ]

    # The process owns connections, so that they outlive the callers that made them. It knows of a
    # connection before it owns it, so that it closes it if the caller is killed.
    with {:ok, {transport, socket}} <- connect(config.tls, host, port, options, deadline),
         :ok <- GenServer.cast(config.pool, {:made, loan, {transport, socket}}),
         :ok <- transport.controlling_process(socket, config.pool) do
      {:ok, {transport, socket}}
    end
  end

  defp connect(tls, host, port, options, deadline) do
    family = if is_tuple(host), do: :local, else: :inet

    case dial(tls, host, port, [family | options], deadline) do
      # A literal IPv6 address, or a name that has only such addresses.
      {:error, reason} when family == :inet and reason in [:nxdomain, :eafnosupport, :einval] ->
        dial(tls, host, port, [:inet6 | options], deadline)

      result ->
        result
    end
  end

  defp dial(false, host, port, options, deadline) do
    with {:ok, socket} <- :gen_tcp.connect(host, port, options, left(deadline)) do
      {:ok, {:gen_tcp, socket}}
    end
  end

  defp dial(true, host, port, options, deadline) do
    trust = [
      verify: :verify_peer,
      cacerts: :public_key.cacerts_get(),
      customize_hostname_check: [
        match_fun: :public_key.pkix_verify_hostname_match_fun(:https)
      ]
    ]

    with {:ok, socket} <- :ssl.connect(host, port, options ++ trust, left(deadline)) do
      {:ok, {:ssl, socket}}
    end
  end

  # Reads the head, then the body. Returns whether the connection can be used again.
  defp receive_answer(connection, bytes, deadline) do
    case :binary.split(bytes, "\r\n\r\n") do
      [head, rest] ->
        with {:ok, status, headers} <- head(head),
             {:ok, body, rest} <- body(headers, connection, rest, deadline) do
          {:ok, status, body, rest == "" and headers["connection"] != ["close"]}
        end

      _ when byte_size(bytes) > @max_head ->
        {:error, {:invalid, "the head of the answer is too long"}}

      _ ->
        with {:ok, more} <- more(connection, deadline) do
          receive_answer(connection, bytes <> more, deadline)
        end
    end
  end

  defp head(head) do
    with ["HTTP/1.1 " <> status | lines] <- String.split(head, "\r\n"),
         {status, _} when status in 200..599 <- Integer.parse(status),
         pairs = Enum.map(lines, &:binary.split(&1, ":")),
         true <- Enum.all?(pairs, &match?([_, _], &1)) do
      headers =
        Enum.group_by(
          pairs,
          fn [name, _] -> String.downcase(name, :ascii) end,
          fn [_, value] -> value |> trim() |> String.downcase(:ascii) end
        )

      {:ok, status, headers}
    else
      _ -> {:error, {:invalid, "the answer is not HTTP/1.1"}}
    end
  end

  defp trim(value), do: value |> String.trim_leading(" ") |> String.trim_trailing(" ")

  defp body(headers, connection, rest, deadline) do
    case {headers["content-length"], headers["transfer-encoding"]} do
      {[length], nil} ->
        if length =~ ~r/\A[0-9]{1,7}\z/ do
          exactly(String.to_integer(length), connection, rest, deadline)
        else
          {:error, {:invalid, "the answer is too long"}}
        end

      {nil, ["chunked"]} ->
        chunks("", connection, rest, deadline)

      _ ->
        {:error, {:invalid, "the answer has no length"}}
    end
  end

  defp exactly(length, _, _, _) when length > @max_body do
    {:error, {:invalid, "the answer is too long"}}
  end

  defp exactly(length, _, bytes, _) when byte_size(bytes) >= length do
    <<body::binary-size(length), rest::binary>> = bytes
    {:ok, body, rest}
  end

  defp exactly(length, connection, bytes, deadline) do
    with {:ok, more} <- more(connection, deadline) do
      exactly(length, connection, bytes <> more, deadline)
    end
  end

  # A proxy may send an answer in chunks. The last one has no trailers.
  defp chunks(body, connection, bytes, deadline) do
    with {:ok, size, rest} <- chunk_size(connection, bytes, deadline),
         true <- byte_size(body) + size <= @max_body,
         {:ok, chunk, rest} <- exactly(size + 2, connection, rest, deadline),
         <<data::binary-size(size), "\r\n">> <- chunk do
      if size == 0, do: {:ok, body, rest}, else: chunks(body <> data, connection, rest, deadline)
    else
      {:error, reason} -> {:error, reason}
      _ -> {:error, {:invalid, "a chunk of the answer is too long or broken"}}
    end
  end

  defp chunk_size(connection, bytes, deadline) do
    case Regex.run(~r/\A([0-9a-fA-F]{1,6})\r\n/, bytes) do
      [line, size] ->
        rest = binary_part(bytes, byte_size(line), byte_size(bytes) - byte_size(line))
        {:ok, String.to_integer(size, 16), rest}

      nil when byte_size(bytes) > 8 ->
        {:error, {:invalid, "a chunk of the answer has no size"}}

      nil ->
        with {:ok, more} <- more(connection, deadline) do
          chunk_size(connection, bytes <> more, deadline)
        end
    end
  end

  defp more({transport, socket}, deadline), do: transport.recv(socket, 0, left(deadline))
  defp close({transport, socket}), do: transport.close(socket)
  defp left(deadline), do: max(deadline - now(), 0)
  defp now, do: System.monotonic_time(:millisecond)
end

defmodule Tollgate.Hammer.JSON do
  @moduledoc "The JSON that the backend writes and reads. Elixir has its own only since 1.18."

  # The service nests far less.
  @max_depth 16

  @doc "Writes a string, a whole number, a list, or an object as a list of pairs in a tuple."
  def encode(value), do: value |> write() |> IO.iodata_to_binary()

  defp write({pairs}) do
    [
      "{",
      pairs |> Enum.map(fn {name, value} -> [string(name), ":", write(value)] end) |> join(),
      "}"
    ]
  end

  defp write(values) when is_list(values), do: ["[", values |> Enum.map(&write/1) |> join(), "]"]
  defp write(number) when is_integer(number), do: Integer.to_string(number)
  defp write(text) when is_binary(text), do: string(text)

  defp join(parts), do: Enum.intersperse(parts, ",")
  defp string(text), do: [?", for(<<character::utf8 <- text>>, do: escaped(character)), ?"]

  defp escaped(?"), do: ~S(\")
  defp escaped(?\\), do: ~S(\\)

  defp escaped(character) when character < 0x20 do
    [~S(\u), character |> Integer.to_string(16) |> String.pad_leading(4, "0")]
  end

  defp escaped(character), do: <<character::utf8>>

  @doc "Reads one value. Objects are maps with strings as keys."
  def decode(text) do
    {value, rest} = value(skip(text), 0)
    if skip(rest) == "", do: {:ok, value}, else: :error
  catch
    :malformed -> :error
  end

  defp value(_, depth) when depth > @max_depth, do: throw(:malformed)
  defp value("{" <> rest, depth), do: members(skip(rest), depth + 1, %{})
  defp value("[" <> rest, depth), do: elements(skip(rest), depth + 1, [])
  defp value("\"" <> rest, _), do: text(rest, [])
  defp value("true" <> rest, _), do: {true, rest}
  defp value("false" <> rest, _), do: {false, rest}
  defp value("null" <> rest, _), do: {nil, rest}

  defp value(text, _) do
    case Regex.run(~r/\A-?(?:0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?/, text) do
      [number] -> {String.to_integer(number), after_bytes(text, number)}
      [number | _] -> {number |> Float.parse() |> elem(0), after_bytes(text, number)}
      nil -> throw(:malformed)
    end
  end

  defp members("}" <> rest, _, members) when members == %{}, do: {members, rest}

  defp members("\"" <> rest, depth, members) do
    {name, rest} = text(rest, [])

    case skip(rest) do
      ":" <> rest ->
        {value, rest} = value(skip(rest), depth)
        members = Map.put(members, name, value)

        case skip(rest) do
          "," <> rest -> rest |> skip() |> another_member(depth, members)
          "}" <> rest -> {members, rest}
          _ -> throw(:malformed)
        end

      _ ->
        throw(:malformed)
    end
  end

  defp members(_, _, _), do: throw(:malformed)

  defp another_member("\"" <> _ = text, depth, members), do: members(text, depth, members)
  defp another_member(_, _, _), do: throw(:malformed)

  defp elements("]" <> rest, _, []), do: {[], rest}

  defp elements(text, depth, elements) do
    {value, rest} = value(text, depth)

    case skip(rest) do
      "," <> rest -> elements_after(skip(rest), depth, [value | elements])
      "]" <> rest -> {Enum.reverse([value | elements]), rest}
      _ -> throw(:malformed)
    end
  end

  defp elements_after("]" <> _, _, _), do: throw(:malformed)
  defp elements_after(text, depth, elements), do: elements(text, depth, elements)

  defp text("\"" <> rest, parts), do: {parts |> Enum.reverse() |> IO.iodata_to_binary(), rest}

  defp text(<<?\\, escape, rest::binary>>, parts) when escape in '"\\/' do
    text(rest, [<<escape>> | parts])
  end

  defp text("\\b" <> rest, parts), do: text(rest, ["\b" | parts])
  defp text("\\f" <> rest, parts), do: text(rest, ["\f" | parts])
  defp text("\\n" <> rest, parts), do: text(rest, ["\n" | parts])
  defp text("\\r" <> rest, parts), do: text(rest, ["\r" | parts])
  defp text("\\t" <> rest, parts), do: text(rest, ["\t" | parts])

  defp text(<<"\\u", digits::binary-size(4), rest::binary>>, parts) do
    {character, rest} = character(unit(digits), rest)
    text(rest, [<<character::utf8>> | parts])
  end

  defp text(<<character::utf8, rest::binary>>, parts)
       when character >= 0x20 and character != ?\\ do
    text(rest, [<<character::utf8>> | parts])
  end

  defp text(_, _), do: throw(:malformed)

  # Characters above U+FFFF are two surrogates.
  defp character(high, <<"\\u", digits::binary-size(4), rest::binary>>)
       when high in 0xD800..0xDBFF do
    case unit(digits) do
      low when low in 0xDC00..0xDFFF -> {0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00), rest}
      _ -> throw(:malformed)
    end
  end

  defp character(surrogate, _) when surrogate in 0xD800..0xDFFF, do: throw(:malformed)
  defp character(unit, rest), do: {unit, rest}

  defp unit(digits) do
    if digits =~ ~r/\A[0-9a-fA-F]{4}\z/,
      do: String.to_integer(digits, 16),
      else: throw(:malformed)
  end

  defp skip(<<space, rest::binary>>) when space in ' \t\r\n', do: skip(rest)
  defp skip(text), do: text

  defp after_bytes(text, prefix) do
    binary_part(text, byte_size(prefix), byte_size(text) - byte_size(prefix))
  end
end
