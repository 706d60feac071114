# The formula of a tap. A release puts the archive's address and digest here (packaging/README.md); not tried: there is
# no Homebrew where the tests run, only Ruby's look at its syntax.
class Tideline < Formula
  desc "Timeline messaging server: durable, gapless, pushed"
  homepage "https://tideline.example"
  url "https://tideline.example/releases/tideline-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args
    generate_completions_from_executable(bin/"tideline", "completion")
    (etc/"tideline").mkpath
    settings = <<~TOML
      data = "#{var}/tideline"
      listen = "127.0.0.1:7070"
    TOML
    (etc/"tideline/tideline.toml").write settings unless (etc/"tideline/tideline.toml").exist?
  end

  service do
    run [opt_bin/"tideline", "serve", "--config", etc/"tideline/tideline.toml"]
    keep_alive crashed: true
    log_path var/"log/tideline.log"
    error_log_path var/"log/tideline.log"
  end

  test do
    port = free_port
    server = spawn bin/"tideline", "serve", "--data", testpath/"data", "--listen", "127.0.0.1:#{port}"
    system bin/"tideline", "send", "lobby", "the tide is in", "--url", "http://127.0.0.1:#{port}"
  ensure
    Process.kill "TERM", server
    Process.wait server
  end
end
