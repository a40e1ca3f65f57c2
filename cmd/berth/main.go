package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"berth/cmd/berth/proxy"
	"berth/shared/choice"
	"berth/shared/cluster"
)

// commands are all that berth can do.
type commands struct {
	Local   localCommands   `embed:""`
	Cluster clusterCommands `embed:""`
	Lists   listCommands    `embed:""`
	Changes changeCommands  `embed:""`
	Tools   toolCommands    `embed:""`

	PrintVersion versionFlag `name:"version" help:"Print the version, as the command does."`
}

// localCommands run Berth or its fleet on this machine.
type localCommands struct {
	Up      upCommand      `cmd:"" help:"Run Berth in this process, with a simulated AWS."`
	Chaos   chaosCommand   `cmd:"" help:"Break machines and tasks of the simulated AWS."`
	Backup  backupCommand  `cmd:"" help:"Write a backup of a data folder, also of a running Berth."`
	Restore restoreCommand `cmd:"" help:"Make a data folder from a backup."`
	Fleet   fleetCommand   `cmd:"" help:"Run only the simulated AWS, for a Berth on an emulator of AWS."`
	Replay  replayCommand  `cmd:"" help:"Replay a recorded cluster through Berth, in virtual time."`
	Pack    packCommand    `cmd:"" help:"Fill the GPU nodes of a trace, and print how much of them is used."`
}

// clusterCommands explain a cluster, and change nothing.
type clusterCommands struct {
	Status   statusCommand   `cmd:"" help:"Show what is wrong in a cluster, why, and what would help."`
	Console  consoleCommand  `cmd:"" help:"Show a cluster in a browser on this machine."`
	Events   eventsCommand   `cmd:"" help:"Show the events of a cluster's services, and follow them."`
	Explain  explainCommand  `cmd:"" help:"Explain the state of a task, service, cluster or instance."`
	Throttle throttleCommand `cmd:"" help:"Show how the starts of a service are slowed down, and until when."`
	Whatif   whatifCommand   `cmd:"" help:"Show where tasks would go, and why not elsewhere. Changes nothing."`
}

// changeCommands change a cluster, or plan a change.
type changeCommands struct {
	Rollback    rollbackCommand    `cmd:"" help:"Stop a service's deployment, and return to the one before."`
	Upgrade     upgradeCommand     `cmd:"" help:"Replace the nodes of a node group by new ones, and report each step."`
	Consolidate consolidateCommand `cmd:"" help:"Empty instances whose tasks fit elsewhere; --dry-run shows which."`
	Rebalance   rebalanceCommand   `cmd:"" help:"Balance a cluster or show how, or measure the search."`
	Limit       limitCommand       `cmd:"" help:"Show the limits of applications, and change them."`
	Import      importCommand      `cmd:"" help:"Apply a Service Fabric description to a cluster."`
}

// toolCommands serve other tools and the shell.
type toolCommands struct {
	Doctor     doctorCommand     `cmd:"" help:"Check an installation on AWS, and say what to do."`
	Proxy      proxyCommand      `cmd:"" help:"Sign the requests of the AWS CLI, Terraform and others to Berth."`
	Completion completionCommand `cmd:"" help:"Print the script that completes commands in bash, zsh or fish."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

// listCommands list what a cluster has.
type listCommands struct {
	Service  serviceCommand  `cmd:"" help:"List services."`
	Task     taskCommand     `cmd:"" help:"List tasks."`
	Instance instanceCommand `cmd:"" help:"List container instances."`
	Cluster  clusterCommand  `cmd:"" help:"List clusters."`
}

// main only passes on what belongs to the process, so that tests can run whole command lines.
func main() {
	os.Exit(runCommandLine(os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage marks an error of the command line that Validate cannot see.
var errUsage = errors.New("usage")

// runCommandLine runs a command line and returns the exit code:
//
//	0    success; also when `berth up` or `berth fleet` is interrupted, the usual way to stop them
//	1    failure; also when `berth doctor` finds something wrong
//	2    a command line that cannot be right; nothing has been done
//	3    `berth whatif` finds no instance for some tasks, `berth upgrade --dry-run` expects a failure,
//	     or `berth status` finds something wrong
//	130  interrupted
//
// `berth proxy -- COMMAND` ends with the command's exit code.
//
// A second interrupt ends the process at once.
func runCommandLine(args []string, stdout, stderr io.Writer) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal, the default handling is back: a second one ends the process.
	context.AfterFunc(ctx, stop)
	code = -1
	parser, err := newParser(ctx, &streams{out: stdout, err: stderr, args: args}, func(n int) { code = n })
	if err != nil {
		fmt.Fprintln(stderr, "berth:", err)
		return 2
	}
	// Without a command, help is more useful than an error.
	if len(args) == 0 {
		args = []string{"--help"}
	}
	// A shell that completes a command line asks for it in COMP_LINE, and has the answer here.
	if kongcompletion.Register(parser); code >= 0 {
		return code
	}
	if args[0] == "help" { // as `git help COMMAND`
		args = append(slices.Clone(args[1:]), "--help")
	}
	args = moveLeadingFlags(parser.Model.Node, args)
	// Parse calls Validate, so that a wrong flag is found before anything is read or changed.
	parsed, err := parseArguments(parser, args)
	if code >= 0 {
		return code // --help
	}
	if err != nil {
		fmt.Fprintf(stderr, "berth: %s\nTry: %s --help\n", offerOrder(describeMistake(err), args), commandOf(err))
		return 2
	}
	return reportExitCode(parsed.Run(), ctx, stderr)
}

// negativeValue is how the parser refuses a negative number after a flag, which it takes for another flag.
var negativeValue = regexp.MustCompile(`(--[a-z-]+)[^:]*: expected .* value but got "(-[0-9][^"]*)" \(short flag\)`)

// parseArguments parses a command line, in which `--nodes -1` means `--nodes=-1`. Then Validate says which
// numbers are possible.
func parseArguments(parser *kong.Kong, args []string) (parsed *kong.Context, err error) {
	for {
		parsed, err = parser.Parse(args)
		if err == nil {
			return parsed, nil
		}
		m := negativeValue.FindStringSubmatch(err.Error())
		if m == nil {
			return parsed, err
		}
		at := 0
		for at < len(args)-1 && !(args[at] == m[1] && args[at+1] == m[2]) {
			at++
		}
		if at >= len(args)-1 {
			return parsed, err
		}
		args = slices.Concat(args[:at], []string{m[1] + "=" + m[2]}, args[at+2:])
	}
}

// newParser returns the parser of all commands.
func newParser(ctx context.Context, s *streams, exit func(code int)) (*kong.Kong, error) {
	return kong.New(&commands{}, kong.Name("berth"), kong.Description(readLongHelpText("berth")), kong.UsageOnError(),
		kong.PostBuild(addLongHelpTexts), kong.Writers(s.out, s.err), kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Vars(helpVariables()),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s))
}

// notOneOf is how the parser refuses a value of a flag that has a list of them.
var notOneOf = regexp.MustCompile(`must be one of ("[^ ]*) but got "(.*)"$`)

// nearestValue returns which of a flag's values may have been meant; empty if the error is another one.
func nearestValue(err error) string {
	m := notOneOf.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	return choice.DidYouMean(m[2], strings.Split(strings.Trim(m[1], `"`), `","`))
}

// notANumber is how the parser refuses a value of a flag that takes a number.
var notANumber = regexp.MustCompile(`(--[a-z-]+)[^:]*: expected a valid \d+ bit int but got (".*")$`)

// notADuration is how the parser refuses a value of a flag that takes a duration.
var notADuration = regexp.MustCompile(`(--[a-z-]+)[^:]*: expected duration but got ("[^"]*"): .*$`)

// unknownFormat is how the parser refuses a flag for the output's format that another command has.
var unknownFormat = regexp.MustCompile(`^unknown flag (-o|--output|--json)\b`)

// describeMistake returns the parser's error with what was probably meant: one of a flag's values, or the
// flag with which this command prints JSON.
func describeMistake(err error) string {
	var wrong *kong.ParseError
	m := unknownFormat.FindStringSubmatch(err.Error())
	if m == nil || !errors.As(err, &wrong) || wrong.Context.Selected() == nil {
		text := notANumber.ReplaceAllString(err.Error(), "$1 is $2, expected a whole number")
		text = notADuration.ReplaceAllString(text, "$1 is $2, expected a duration such as 30m or 1h")
		return keepNear(text) + nearestValue(err)
	}
	for _, f := range wrong.Context.Selected().Flags {
		switch {
		case f.Name == "json" && m[1] != "--json":
			return fmt.Sprintf("%s has no %s; use --json", commandOf(err), m[1])
		case f.Name == "output" && f.Short == 'o' && m[1] == "--json":
			return commandOf(err) + " has no --json; use --output json"
		}
	}
	return keepNear(err.Error())
}

// suggestion is how the parser offers flags and commands: some within 2 edits, however short they are.
var suggestion = regexp.MustCompile(`^((?:unknown flag|unexpected argument) (\S+)), did you mean (?:one of )?(.*)\?$`)

// keepNear leaves out of the parser's offers those that are not near.
func keepNear(text string) string {
	m := suggestion.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	bare := func(name string) string { return strings.Trim(name, `"-`) }
	near := slices.DeleteFunc(strings.Split(m[3], ", "), func(quoted string) bool {
		return !strings.HasPrefix(bare(quoted), bare(m[2])) && choice.Nearest(bare(m[2]), []string{bare(quoted)}) == ""
	})
	if len(near) == 0 {
		return m[1]
	}
	return m[1] + ", did you mean " + choice.List(near) + "?"
}

// commandOf returns the command in which a command line is wrong, as far as it was understood.
func commandOf(err error) string {
	var wrong *kong.ParseError
	out := "berth"
	if !errors.As(err, &wrong) {
		return out
	}
	for _, p := range wrong.Context.Path {
		if p.Command != nil {
			out += " " + p.Command.Name
		}
	}
	return out
}

// reportExitCode prints the error, if any, and returns the exit code for it.
func reportExitCode(err error, ctx context.Context, stderr io.Writer) int {
	var exit *proxy.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Started:
		return exit.Code // the command has said why
	case errors.As(err, &exit):
		fmt.Fprintln(stderr, "berth:", err)
		return exit.Code
	// Only a signal cancels ctx. A command that was canceled for another reason has failed.
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(stderr, "berth: interrupted")
		return 130
	case errors.Is(err, errUnplaced), errors.Is(err, errWouldFail), errors.Is(err, errProblems):
		return 3 // the answer has said why
	case errors.Is(err, errUnwell):
		return 1 // the report has said why
	}
	fmt.Fprintln(stderr, "berth:", err.Error()+nextStep(err))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// nextStep returns what lists the names that exist, for an error about one that does not.
func nextStep(err error) string {
	list := ""
	switch cluster.ErrorCode(err) {
	case cluster.CodeClusterNotFound:
		list = " `berth cluster` lists those that exist."
	case cluster.CodeServiceNotFound:
		list = " `berth service` lists those that exist."
	}
	if text := err.Error(); list != "" && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
		return "." + list
	}
	return list
}

// streams are where a command writes, and the arguments that it was started with.
type streams struct {
	out, err io.Writer
	args     []string
}
