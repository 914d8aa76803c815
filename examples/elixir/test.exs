# TOLLGATE_BINARY=target/debug/tollgate elixir examples/elixir/test.exs
#
# Tests tollgate_hammer.ex with a real service on a real Redis, and with a server that answers
# wrongly or not at all. It needs no package: what `use Hammer` adds to a module is two lines, and
# they are here. With HAMMER_SOURCE=/path/to/hammer it uses Hammer itself.

Code.require_file("tollgate_hammer.ex", __DIR__)

case System.get_env("HAMMER_SOURCE") do
  nil ->
    defmodule Hammer do
      defmacro __using__(options) do
        quote do
          @hammer_opts unquote(options)
          @before_compile unquote(options[:backend])
        end
      end
    end

  source ->
    Application.put_env(:elixir, :ansi_enabled, false)
    Code.require_file("lib/hammer.ex", source)
end

defmodule Limits do
  use Hammer, backend: Tollgate.Hammer
end

defmodule SameName do
  use Hammer, backend: Tollgate.Hammer, name: "Limits"
end

defmodule OtherName do
  use Hammer, backend: Tollgate.Hammer, name: "other", algorithm: :fix_window
end

defmodule Processes do
  @moduledoc "Redis and the service. They end when the pipe to their standard input does."

  @patience 10_000

  def folder, do: Path.join(System.tmp_dir!(), "tollgate-elixir-#{System.pid()}")

  def start_redis do
    port = free_port()
    File.mkdir_p!(folder())
    start("redis-server", ~w(--port #{port} --save) ++ ["", "--dir", folder()])
    until(fn -> match?({:ok, _}, :gen_tcp.connect('127.0.0.1', port, [])) end)
    "redis://127.0.0.1:#{port}"
  end

  def start_service(store, port \\ free_port()) do
    process = start_service_at("127.0.0.1:#{port}", ["--store", store])
    until(fn -> ready?({127, 0, 0, 1}, port) end)
    {"http://127.0.0.1:#{port}", process}
  end

  def start_service_with_token(folder) do
    new = ~w(token new --name a --scope count --policy Limits --tokens #{folder}/tokens)
    {_, 0} = System.cmd(binary(), new ++ ["--token-file", "#{folder}/token"])
    path = "#{folder}/checks.sock"
    process = start_service_at("unix:" <> path, ["--tokens", "#{folder}/tokens"])
    until(fn -> ready?({:local, path}, 0) end)
    {"unix:" <> path, File.read!("#{folder}/token") |> String.trim(), process}
  end

  defp start_service_at(address, flags) do
    common = ~w(serve --limit 1/1m --caller-quotas --admin-listen 127.0.0.1:0 --listen #{address})
    start(binary(), common ++ flags)
  end

  defp binary do
    path = System.get_env("TOLLGATE_BINARY", Path.expand("../../target/debug/tollgate", __DIR__))
    unless File.exists?(path), do: raise("build the service first, or set TOLLGATE_BINARY")
    path
  end

  # Ends the program as soon as this script ends, however it does.
  defp start(program, arguments) do
    executable = System.find_executable(program) || raise "#{program} is missing; install it"
    script = ~S("$@" </dev/null >/dev/null 2>&1 & read -r _; kill -9 $!; wait)

    Port.open({:spawn_executable, System.find_executable("sh")}, [
      :binary,
      args: ["-c", script, "sh", executable | arguments]
    ])
  end

  def stop({url, process}) do
    Port.command(process, "\n")
    %URI{port: port} = URI.parse(url)
    until(fn -> match?({:error, _}, :gen_tcp.connect('127.0.0.1', port, [])) end)
  end

  def free_port do
    {:ok, listener} = :gen_tcp.listen(0, ip: {127, 0, 0, 1})
    {:ok, port} = :inet.port(listener)
    :gen_tcp.close(listener)
    port
  end

  defp ready?(address, port) do
    with {:ok, socket} <- :gen_tcp.connect(address, port, [:binary, active: false]),
         :ok <-
           :gen_tcp.send(socket, "GET /readyz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"),
         {:ok, "HTTP/1.1 200" <> _} <- :gen_tcp.recv(socket, 0, 1_000) do
      true
    else
      _ -> false
    end
  end

  def until(holds, since \\ System.monotonic_time(:millisecond)) do
    cond do
      holds.() -> :ok
      System.monotonic_time(:millisecond) - since > @patience -> raise "not in time"
      true -> Process.sleep(10) && until(holds, since)
    end
  end
end

defmodule Script do
  @moduledoc "A server that answers each request with what a function returns, and tells the test."

  def start(test \\ self(), address \\ {:port, 0}, answer) do
    options = [:binary, active: false, backlog: 512]

    {:ok, listener} =
      case address do
        {:unix, path} -> :gen_tcp.listen(0, [{:ifaddr, {:local, path}} | options])
        {:port, port} -> :gen_tcp.listen(port, [{:ip, {127, 0, 0, 1}} | options])
      end

    pid = spawn_link(fn -> receive(do: (:go -> accept(listener, test, answer))) end)
    :ok = :gen_tcp.controlling_process(listener, pid)
    send(pid, :go)

    case address do
      {:unix, path} -> "unix:#{path}"
      {:port, _} -> "http://127.0.0.1:#{listener |> :inet.port() |> elem(1)}"
    end
  end

  def counted(fields \\ ~s("allowed":true,"used":1,"reset_after_ms":1000)),
    do: answer(200, "{#{fields}}")

  def answer(status, body) do
    "HTTP/1.1 #{status} X\r\ncontent-length: #{byte_size(body)}\r\n\r\n#{body}"
  end

  defp accept(listener, test, answer) do
    {:ok, socket} = :gen_tcp.accept(listener)
    send(test, :connection)
    pid = spawn_link(fn -> receive(do: (:go -> serve(socket, test, answer, ""))) end)
    :ok = :gen_tcp.controlling_process(socket, pid)
    send(pid, :go)
    accept(listener, test, answer)
  end

  defp serve(socket, test, answer, bytes) do
    with {:ok, request, rest} <- request(socket, bytes) do
      send(test, {:request, request})

      case answer.(request) do
        :close ->
          :gen_tcp.close(socket)

        :nothing ->
          serve(socket, test, answer, rest)

        {:close_after, text} ->
          :gen_tcp.send(socket, text)
          :gen_tcp.close(socket)

        {:slowly, text} ->
          for <<byte <- text>> do
            :gen_tcp.send(socket, <<byte>>)
            Process.sleep(20)
          end

        text ->
          :gen_tcp.send(socket, text)
          serve(socket, test, answer, rest)
      end
    end
  end

  defp request(socket, bytes) do
    with [head, rest] <- :binary.split(bytes, "\r\n\r\n"),
         [_, length] = Regex.run(~r/^Content-Length: (\d+)\r?$/m, head),
         length = String.to_integer(length),
         <<body::binary-size(length), rest::binary>> <- rest do
      {:ok, {head, body}, rest}
    else
      _ ->
        with {:ok, more} <- :gen_tcp.recv(socket, 0), do: request(socket, bytes <> more)
    end
  end
end

ExUnit.start(timeout: 60_000)
ExUnit.after_suite(fn _ -> File.rm_rf!(Processes.folder()) end)

defmodule CountTest do
  use ExUnit.Case

  setup_all do
    {url, _} = Processes.start_service(Processes.start_redis())
    {:ok, url: url}
  end

  # Windows of an hour, so that none ends in the middle of a test unless it runs at the full hour.
  @hour 3_600_000

  setup context do
    for module <- [Limits, SameName, OtherName] do
      # As long as a busy machine may take; other tests are about time.
      start_supervised!({module, url: context.url, timeout: 10_000, on_failure: :closed})
    end

    {:ok, key: "key-#{System.unique_integer([:positive])}"}
  end

  test "admits until the limit, and denies with the time until the window's end", %{key: key} do
    assert {:allow, 1} = Limits.hit(key, @hour, 3)
    assert {:allow, 2} = Limits.hit(key, @hour, 3)
    assert {:allow, 3} = Limits.hit(key, @hour, 3)
    before = System.system_time(:millisecond)
    assert {:deny, time} = Limits.hit(key, @hour, 3)
    ends = (div(before, @hour) + 1) * @hour
    assert_in_delta before + time, ends, 5_000
  end

  test "admits again in the next window", %{key: key} do
    scale = 700
    for _ <- 1..2, do: Limits.hit(key, scale, 2)
    # The window may have ended in between.
    Stream.repeatedly(fn -> Limits.hit(key, scale, 2) end) |> Enum.find(&match?({:deny, _}, &1))
    {:deny, time} = Limits.hit(key, scale, 2)
    assert time in 0..scale
    Process.sleep(time)
    assert {:allow, 1} = Limits.hit(key, scale, 2)
  end

  test "counts increments, also those that are denied", %{key: key} do
    assert {:allow, 4} = Limits.hit(key, @hour, 10, 4)
    assert {:allow, 9} = Limits.hit(key, @hour, 10, 5)
    assert {:deny, _} = Limits.hit(key, @hour, 10, 3)
    assert Limits.get(key, @hour) == 12
    assert {:deny, _} = Limits.hit(key, @hour, 10, 1)
    assert {:allow, 14} = Limits.hit(key, @hour, 14, 1)
  end

  test "denies an increment above the limit, and counts it", %{key: key} do
    assert {:deny, time} = Limits.hit(key, @hour, 2, 3)
    assert time > 0
    assert Limits.get(key, @hour) == 3
  end

  test "denies everything under a limit of 0, and nothing without an increment", %{key: key} do
    assert {:deny, _} = Limits.hit(key, @hour, 0)
    assert {:allow, 1} = Limits.hit(key, @hour, 5, 0)
  end

  test "increments without a limit", %{key: key} do
    assert Limits.get(key, @hour) == 0
    assert Limits.inc(key, @hour) == 1
    assert Limits.inc(key, @hour, 41) == 42
    assert Limits.get(key, @hour) == 42
    assert {:deny, _} = Limits.hit(key, @hour, 42)
  end

  test "sets a count, which then counts for hits", %{key: key} do
    assert Limits.set(key, @hour, 10) == 10
    assert Limits.get(key, @hour) == 10
    assert {:allow, 11} = Limits.hit(key, @hour, 11)
    assert Limits.set(key, @hour, 0) == 0
    assert {:allow, 1} = Limits.hit(key, @hour, 11)
  end

  test "says when a window ends, which is a multiple of the scale", %{key: key} do
    assert Limits.expires_at(key, @hour) == 0
    assert Limits.inc(key, @hour) == 1
    ends = Limits.expires_at(key, @hour)
    assert rem(ends, @hour) == 0
    assert_in_delta ends, System.system_time(:millisecond) + div(@hour, 2), div(@hour, 2) + 5_000
  end

  test "windows of different lengths have counters of their own", %{key: key} do
    assert Limits.inc(key, @hour) == 1
    assert Limits.get(key, 2 * @hour) == 0
  end

  test "keys may be any term, and no two share a counter", %{key: key} do
    keys = [
      key,
      String.to_atom(key),
      to_charlist(key),
      {key},
      [key],
      %{key => 1},
      {key, 1},
      {key, 1.0},
      <<255, key::binary>>,
      key <> "\"\\\n\0\u{1F600}",
      String.duplicate(key, 200),
      String.duplicate(key, 200) <> "a",
      {String.duplicate(key, 200)},
      {String.duplicate(key, 200), "a"},
      Base.encode64(:erlang.term_to_binary({key}, [:deterministic, minor_version: 2])),
      ""
    ]

    for {key, count} <- Enum.with_index(keys, 1) do
      assert Limits.inc({:all, key}, @hour, count) == count
      assert Limits.set(key, @hour, count) == count
    end

    for {key, count} <- Enum.with_index(keys, 1), do: assert(Limits.get(key, @hour) == count)
  end

  test "modules share counters if they have one name", %{key: key} do
    assert Limits.inc(key, @hour) == 1
    assert SameName.inc(key, @hour) == 2
    assert OtherName.inc(key, @hour) == 1
  end

  test "arguments out of their bounds are errors that name them", %{key: key} do
    assert_raise ArgumentError, ~r/^scale .* 0$/, fn -> Limits.hit(key, 0, 1) end
    assert_raise ArgumentError, ~r/^scale .* 1.5$/, fn -> Limits.get(key, 1.5) end
    assert_raise ArgumentError, ~r/^limit .* -1$/, fn -> Limits.hit(key, 1, -1) end
    assert_raise ArgumentError, ~r/^increment .* :a$/, fn -> Limits.hit(key, 1, 1, :a) end
    assert_raise ArgumentError, ~r/^increment /, fn -> Limits.inc(key, 1, 2 ** 32) end
    assert_raise ArgumentError, ~r/^count /, fn -> Limits.set(key, 1, 2 ** 40) end
    assert Limits.set(key, @hour, 2 ** 40 - 1) == 2 ** 40 - 1
  end

  test "50 hits of two nodes at once are exactly 20 admissions", %{url: url, key: key} do
    script = ~S"""
    defmodule Limits do
      @hammer_opts [backend: Tollgate.Hammer]
      @before_compile Tollgate.Hammer
    end

    [url, key] = System.argv()
    {:ok, _} = Limits.start_link(url: url, timeout: 10_000, on_failure: :closed)
    hit = fn _ -> Limits.hit(key, 3_600_000, 20) end
    hits = Task.async_stream(1..25, hit, max_concurrency: 25, timeout: 30_000)
    IO.write(Enum.count(hits, &match?({:ok, {:allow, _}}, &1)))
    """

    for round <- 1..3 do
      nodes =
        for _ <- 1..2 do
          file = Path.join(__DIR__, "tollgate_hammer.ex")
          arguments = ["-r", file, "-e", script, "--", url, "#{key}-#{round}"]
          Task.async(fn -> System.cmd("elixir", arguments) end)
        end

      admitted = for {text, 0} <- Task.await_many(nodes, 60_000), do: String.to_integer(text)
      assert Enum.sum(admitted) == 20, "#{inspect(admitted)}"
      assert Limits.get("#{key}-#{round}", 3_600_000) == 50
    end
  end
end

defmodule OutageTest do
  use ExUnit.Case

  import ExUnit.CaptureLog

  @hour 3_600_000

  test "a token counts under the names of its principal, over a Unix socket" do
    # The path of a socket has at most 107 bytes.
    folder = Path.join(System.tmp_dir!(), "tollgate-token-#{System.pid()}")
    File.mkdir_p!(folder)
    on_exit(fn -> File.rm_rf!(folder) end)
    {url, token, _} = Processes.start_service_with_token(folder)
    start_supervised!({Limits, url: url, token: token, timeout: 10_000})
    start_supervised!({OtherName, url: url, token: token, timeout: 10_000})
    assert {:allow, 1} = Limits.hit("a", @hour, 5)
    assert Limits.get("a", @hour) == 1
    log = capture_log(fn -> assert {:allow, 0} = OtherName.hit("a", @hour, 5) end)
    assert log =~ "status 403"
    refute log =~ token
    assert OtherName.failures() == %{refused: 1}
  end

  test "the service is killed and started again" do
    store = Processes.start_redis()
    {url, _} = service = Processes.start_service(store)
    start_supervised!({Limits, url: url, timeout: 5_000})
    assert {:allow, 1} = Limits.hit("a", @hour, 5)

    Processes.stop(service)

    capture_log(fn ->
      assert {:allow, 0} = Limits.hit("a", @hour, 5)
      assert_raise Tollgate.Hammer.Error, ~r/connection/, fn -> Limits.get("a", @hour) end
    end)

    assert Limits.failures() == %{connection: 2}

    %URI{port: port} = URI.parse(url)
    service = Processes.start_service(store, port)
    assert {:allow, 2} = Limits.hit("a", @hour, 5)
    Processes.stop(service)
  end

  test "an answer of the service without its store has no count" do
    body = ~s({"allowed":true,"policy":"Limits:caller","source":"fallback"})
    start_supervised!({Limits, url: Script.start(fn _ -> Script.answer(200, body) end)})
    assert {:allow, 0} = Limits.hit("a", @hour, 5)
    assert Limits.failures() == %{}
    capture_log(fn -> assert_raise Tollgate.Hammer.Error, fn -> Limits.inc("a", @hour) end end)
  end

  test "a service that does not answer takes a call no longer than the timeout" do
    start_supervised!({Limits, url: Script.start(fn _ -> :nothing end)})
    start_supervised!({OtherName, url: Script.start(fn _ -> :nothing end), on_failure: :closed})

    capture_log(fn ->
      {time, {:allow, 0}} = :timer.tc(fn -> Limits.hit("a", @hour, 5) end)
      assert time in 250_000..2_000_000
      {time, {:deny, 1000}} = :timer.tc(fn -> OtherName.hit("a", @hour, 5) end)
      assert time in 250_000..2_000_000
    end)

    assert Limits.failures() == %{timeout: 1}
  end

  test "an answer that trickles in is cut off at the timeout" do
    start_supervised!({Limits, url: Script.start(fn _ -> {:slowly, Script.counted()} end)})

    capture_log(fn ->
      {time, {:allow, 0}} = :timer.tc(fn -> Limits.hit("a", @hour, 5) end)
      assert time < 2_000_000
    end)

    assert Limits.failures() == %{timeout: 1}
  end

  test "answers that are none are failures of their kinds" do
    answers = [
      refused: Script.answer(404, "<html>"),
      refused: Script.answer(302, ""),
      invalid: Script.answer(201, ~s({"allowed":true,"used":1})),
      refused: Script.answer(429, ~s({"status":429,"reason":"too_many_names","detail":"many"})),
      unavailable: Script.answer(503, ~s({"detail":"no store"})),
      invalid: Script.answer(200, "<html>"),
      invalid: Script.answer(200, ~s({"allowed":true)),
      invalid: Script.answer(200, ~s({"used":1})),
      invalid: Script.answer(200, "[]"),
      invalid: Script.answer(200, String.duplicate(" ", 1_100_000)),
      invalid: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
      invalid: "HTTP/1.1 200 OK\r\n\r\n{}",
      invalid: "SSH-2.0-OpenSSH_9.2\r\n\r\n",
      invalid: "HTTP/1.1 200 OK\r\n" <> String.duplicate("a: b\r\n", 20_000),
      invalid: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
    ]

    for {kind, answer} <- answers do
      start_supervised!({Limits, url: Script.start(fn _ -> answer end), timeout: 10_000})
      log = capture_log(fn -> assert {:allow, 0} = Limits.hit("a", @hour, 5) end)
      assert Limits.failures() == %{kind => 1}, answer
      assert log =~ "1 #{kind}"
      stop_supervised!(Limits)
    end
  end

  test "a request that was read is never sent again" do
    start_supervised!({Limits, url: Script.start(fn _ -> :close end), timeout: 10_000})
    capture_log(fn -> assert {:allow, 0} = Limits.hit("a", @hour, 5) end)
    assert Limits.failures() == %{connection: 1}
    assert_receive {:request, _}
    refute_receive {:request, _}, 300
  end

  test "a chunked answer is read" do
    body = ~s({"allowed":true,"used":7})
    {one, two} = String.split_at(body, 10)
    chunk = &"#{Integer.to_string(byte_size(&1), 16)}\r\n#{&1}\r\n"
    head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = head <> chunk.(one) <> chunk.(two) <> chunk.("")
    start_supervised!({Limits, url: Script.start(fn _ -> answer end), timeout: 10_000})
    for _ <- 1..2, do: assert({:allow, 7} = Limits.hit("a", @hour, 5))
    assert_receive :connection
    refute_receive :connection, 100
  end

  test "one connection serves calls that follow each other" do
    start_supervised!({Limits, url: Script.start(fn _ -> Script.counted() end), timeout: 10_000})
    for _ <- 1..20, do: assert({:allow, 1} = Limits.hit("a", @hour, 5))
    assert_receive :connection
    refute_receive :connection, 100
  end

  test "a connection that the service closed is replaced" do
    answer = fn _ -> {:close_after, Script.counted()} end
    start_supervised!({Limits, url: Script.start(answer), timeout: 10_000})

    for _ <- 1..5 do
      assert {:allow, 1} = Limits.hit("a", @hour, 5)
      # The end of the connection arrives.
      Process.sleep(50)
    end

    assert Limits.failures() == %{}
  end

  test "parallel calls share a bounded number of connections" do
    answer = fn _ -> Process.sleep(5) && Script.counted() end
    url = Script.start(answer)
    start_supervised!({Limits, url: url, timeout: 10_000, max_connections: 4})
    hit = fn _ -> Limits.hit("a", @hour, 5) end
    hits = Task.async_stream(1..200, hit, max_concurrency: 200, timeout: 30_000)
    assert Enum.all?(hits, &(&1 == {:ok, {:allow, 1}}))
    for _ <- 1..4, do: assert_receive(:connection)
    refute_receive :connection, 100
  end

  test "a call that waits for a connection ends at its timeout, and leaves the others theirs" do
    answer = fn {_, body} -> if body =~ "slow", do: :nothing, else: Script.counted() end
    start_supervised!({Limits, url: Script.start(answer), timeout: 500, max_connections: 1})

    capture_log(fn ->
      slow = Task.async(fn -> Limits.hit("slow", @hour, 5) end)
      assert_receive {:request, _}, 5_000
      assert {:allow, _} = Limits.hit("waits", @hour, 5)
      assert {:allow, 0} = Task.await(slow)
    end)
  end

  test "a call that was killed, or was granted a connection too late, gives it back" do
    answer = fn {_, body} -> if body =~ "slow", do: :nothing, else: Script.counted() end
    start_supervised!({Limits, url: Script.start(answer), timeout: 500, max_connections: 1})

    killed = spawn(fn -> Limits.hit("slow", @hour, 5) end)
    assert_receive {:request, _}, 5_000
    Process.exit(killed, :kill)
    assert {:allow, 1} = Limits.hit("a", @hour, 5)
    # The connection of the killed caller is closed.
    {:links, links} = Process.info(Process.whereis(Limits), :links)
    assert links |> Enum.filter(&is_port/1) |> length() == 1

    capture_log(fn ->
      :sys.suspend(Limits)
      assert {:allow, 0} = Limits.hit("a", @hour, 5)
      :sys.resume(Limits)
      assert {:allow, 1} = Limits.hit("a", @hour, 5)
    end)

    assert Limits.failures() == %{timeout: 1}
  end

  test "many failures are one line, without keys and tokens" do
    body = ~s({"detail":"the store\\nis away"})
    url = Script.start(fn _ -> Script.answer(503, body) end)
    start_supervised!({Limits, url: url, token: "canary-token", timeout: 10_000})
    log = capture_log(fn -> for _ <- 1..100, do: Limits.hit("canary-key", @hour, 5) end)
    assert Limits.failures() == %{unavailable: 100}
    assert log |> String.split("without a decision") |> length() == 2
    assert log =~ "status 503, the store?is away"
    refute log =~ "canary"
    refute inspect(:sys.get_state(Limits)) =~ "canary"
  end

  test "a detail that repeats its request is logged without the key and the token" do
    body = ~s|{"detail":"canary.key+ (ab, canary-token) of canary: abroad failed"}|
    url = Script.start(fn _ -> Script.answer(502, body) end)
    start_supervised!({Limits, url: url, token: "canary-token", timeout: 10_000})
    log = capture_log(fn -> Limits.hit("canary.key+", @hour, 5) end)
    assert log =~ "status 502, *** (ab, ***) of canary: abroad failed"
    error = assert_raise Tollgate.Hammer.Error, fn -> Limits.get("ab", @hour) end
    assert error.detail == "status 502, canary.key+ (***, ***) of canary: abroad failed"
  end

  test "a request has the fields and headers of the contract, and no others" do
    path = Path.join(System.tmp_dir!(), "tollgate-elixir-#{System.pid()}.sock")
    on_exit(fn -> File.rm!(path) end)
    counted = Script.counted(~s("allowed":true,"used":1,"window":{"start":0,"end":1}))
    url = Script.start(self(), {:unix, path}, fn _ -> counted end)
    start_supervised!({Limits, url: url, token: "secret", timeout: 10_000})
    assert {:allow, 1} = Limits.hit("a\"é", 60_000, 5, 2)
    assert_receive {:request, {head, body}}

    assert body ==
             ~S({"policy":"Limits","attributes":{"key":"a\"é"},"quotas":["5/60000ms"],"cost":2})

    assert Limits.inc("a", 1) == 1
    assert_receive {:request, {_, inc}}

    assert inc ==
             ~S({"policy":"Limits","attributes":{"key":"a"},"window":"1ms","on_store_failure":"closed"})

    assert String.split(head, "\r\n") == [
             "POST /v1/count HTTP/1.1",
             "Host: localhost",
             "Content-Type: application/json",
             "User-Agent: tollgate-elixir/0.1.0",
             "Authorization: Bearer secret",
             "Content-Length: #{byte_size(body)}"
           ]
  end
end

defmodule OptionsTest do
  use ExUnit.Case

  test "options that cannot be are errors that name them, and no secret" do
    wrong = [
      url: "ftp://127.0.0.1",
      url: "http://user:secret@127.0.0.1:1",
      url: "http://127.0.0.1:1/secret",
      url: "http://127.0.0.1:1?secret",
      url: "http://127.0.0.1:0",
      url: "http://127.0.0.1:65536",
      url: "http://127.0.0.1:http",
      url: "http://127.0.0.1 :8080",
      url: "http://",
      url: "http://:8080",
      url: "http://127.0.0.1:1/#secret",
      url: "127.0.0.1:8080",
      url: "unix:relative",
      url: "unix://host/path",
      url: "unix:/",
      url: "unix:/a?b#c",
      url: "unix:/" <> String.duplicate("x", 107),
      url: "http://a..b_-:1",
      url: "https://-a:1",
      url: nil,
      token: "secret\r\n",
      token: "",
      timeout: 0,
      timeout: 60_001,
      timeout: :infinity,
      on_failure: :maybe,
      max_connections: 0,
      clean_period: 60_000
    ]

    for {option, value} <- wrong do
      error = assert_raise ArgumentError, fn -> Limits.start_link([{option, value}]) end
      assert error.message =~ "#{option}"
      refute error.message =~ "secret"
    end
  end

  test "options of `use` that cannot be are errors" do
    for options <- [
          [name: "a b"],
          [name: String.duplicate("a", 65)],
          [algorithm: :leaky_bucket],
          [a: 1]
        ] do
      module = Module.concat(Wrong, "M#{System.unique_integer([:positive])}")

      code =
        quote do
          defmodule unquote(module) do
            use Hammer, unquote([backend: Tollgate.Hammer] ++ options)
          end
        end

      assert_raise ArgumentError, fn -> Code.compile_quoted(code) end
    end
  end

  test "a module that is not started says so" do
    assert_raise ArgumentError, ~r/OtherName is not started/, fn -> OtherName.hit("a", 1, 1) end
  end

  test "JSON is read strictly" do
    alias Tollgate.Hammer.JSON

    good = %{
      ~S( {"a" : [1, -2, 0, {"b": null}], "c": "x"} ) => %{
        "a" => [1, -2, 0, %{"b" => nil}],
        "c" => "x"
      },
      ~S("\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t") => "é\u{1F600}\"\\/\b\f\n\r\t",
      "1.5e3" => 1500.0,
      "1099511627775" => 1_099_511_627_775,
      "[]" => [],
      "{}" => %{}
    }

    for {text, value} <- good, do: assert(JSON.decode(text) == {:ok, value}, text)

    bad = [
      "",
      "{",
      "[1,]",
      ~S({"a":1,}),
      ~S({"a"}),
      ~S({1:2}),
      "01",
      "1 2",
      "tru",
      ~S("\ud83d"),
      ~S("\ude00"),
      ~S("\x"),
      ~S("\u12g4"),
      "\"\n\"",
      "\"a",
      <<?", 255, ?">>,
      String.duplicate("[", 100_000)
    ]

    for text <- bad, do: assert(JSON.decode(text) == :error, text)
  end
end
