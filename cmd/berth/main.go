// Command berth runs the scheduler in one process, replays traces through it, and talks to a
// running one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands are what berth can do.
type commands struct {
	Up          upCommand          `cmd:"" help:"Run Berth in this process: API, functions, queues, state and a simulated fleet."`
	Replay      replayCommand      `cmd:"" help:"Replay a trace of nodes and tasks through the whole pipeline, in virtual time."`
	Import      importCommand      `cmd:"" help:"Make a cluster what Service Fabric's ClusterManifest.xml or ClusterConfig.json describes."`
	Fleet       fleetCommand       `cmd:"" help:"Run the simulated fleet alone, for a Berth on an emulator of AWS."`
	Pack        packCommand        `cmd:"" help:"Fill the GPU nodes of a trace with its tasks, and print how much of them is used."`
	Whatif      whatifCommand      `cmd:"" help:"Say where tasks would go, and why not elsewhere. Changes nothing."`
	Upgrade     upgradeCommand     `cmd:"" help:"Replace the nodes of a node group by new ones, and follow it node by node."`
	Consolidate consolidateCommand `cmd:"" help:"Empty instances whose tasks fit elsewhere; with --dry-run, say which."`
	Explain     explainCommand     `cmd:"" help:"Say why a task is where it is, why tasks of a service have no instance, or why an instance stays."`
	Rollback    rollbackCommand    `cmd:"" help:"Stop the deployment of a service that is under way, and take the service back to the one before."`
	Throttle    throttleCommand    `cmd:"" help:"Say how the starts of a service are slowed down, and until when."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

const description = `Berth is an event-driven scheduler for containers on your own machines, speaking the Amazon ECS API.

Examples:
  berth up                                  6 simulated instances in 3 zones, state in .berth
  berth up --ephemeral --nodes 100 --seed 7 nothing on disk, everything by chance the same each time
  berth replay --compress 20000             the shipped trace, arriving 20,000 times faster
  berth replay --json | jq .stateHash
  berth pack --tasks gpuspec33              how full GPUs get, and how fast
  berth whatif --service web --count 3      where three more tasks would go, and why
  berth upgrade workers --release-version ami-0b9d6f2f5c1e4a7d9 --dry-run   what an update of the nodes would do`

func main() {
	os.Exit(runCommand(os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage marks an error of the command line itself.
var errUsage = errors.New("usage")

// runCommand is the whole program: exit code 0 for success, 1 for failure, 2 for a command line
// that makes no sense, 130 for work that was interrupted, 3 where `berth whatif` finds no instance
// for all tasks, or `berth upgrade --dry-run` foresees a failure. To interrupt `berth up` once it
// serves is how one ends it, and a success; a second interrupt ends any command at once.
func runCommand(args []string, stdout, stderr io.Writer) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	var c commands
	code = -1
	parser, err := kong.New(&c, kong.Name("berth"), kong.Description(description), kong.UsageOnError(),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { code = n }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars(helpVariables()), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(&streams{out: stdout, err: stderr}))
	if err != nil {
		fmt.Fprintln(stderr, "berth:", err)
		return 2
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if code >= 0 {
		return code // --help
	}
	if err != nil {
		fmt.Fprintf(stderr, "berth: %v\nTry: berth --help\n", err)
		return 2
	}
	return exitCode(parsed.Run(), ctx, stderr)
}

func exitCode(err error, ctx context.Context, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(stderr, "berth: interrupted")
		return 130
	case errors.Is(err, errUnplaced), errors.Is(err, errUnready):
		return 3
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "berth:", err)
		return 2
	}
	fmt.Fprintln(stderr, "berth:", err)
	return 1
}

// streams are where a command writes.
type streams struct{ out, err io.Writer }

type versionCommand struct {
	JSON bool `help:"As JSON."`
}

// Run prints the module's version and the revision it was built from, where the build knows them.
func (v *versionCommand) Run(s *streams) error {
	version, revision, goVersion := "(devel)", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	if v.JSON {
		_, err := fmt.Fprintf(s.out, "{\"version\":%q,\"revision\":%q,\"go\":%q}\n", version, revision, goVersion)
		return err
	}
	parts := slices.DeleteFunc([]string{"berth", version, revision, goVersion}, func(s string) bool { return s == "" })
	_, err := fmt.Fprintln(s.out, strings.Join(parts, " "))
	return err
}
