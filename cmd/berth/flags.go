package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"berth/cmd/berth/chart"
	"berth/cmd/berth/client"
	"berth/cmd/berth/problem"
	"berth/shared/choice"
	"berth/shared/placement"
	"berth/shared/sim/ec2"
	"berth/shared/wire/transport"
)

var (
	clusterNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)
	regions      = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)
)

// clusterFlags name a cluster of a running Berth.
type clusterFlags struct {
	client.Endpoint
	Cluster string `default:"default" help:"Name of the cluster."`
}

// Validate checks where the API is and the name of the cluster.
func (f *clusterFlags) Validate() error {
	if err := f.Endpoint.Validate(); err != nil {
		return err
	}
	return checkClusterName(f.Cluster)
}

// newClient returns a client of the endpoint. It calls nothing yet.
func (f *clusterFlags) newClient(ctx context.Context) (*client.Client, error) {
	return client.New(ctx, f.Endpoint)
}

// checkClusterName applies ECS's rule for the names of clusters.
func checkClusterName(name string) error {
	if !clusterNames.MatchString(name) {
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", name)
	}
	return nil
}

// moveLeadingFlags puts the flags that say which Berth is meant after the command if they stand
// before it, as in `berth --stack prod explain service web`. Without a command they are dropped: what is wrong
// is that there is none.
func moveLeadingFlags(root *kong.Node, args []string) []string {
	leading := 0
	for leading < len(args) {
		name, _, hasValue := strings.Cut(args[leading], "=")
		if !slices.Contains([]string{"--endpoint", "--stack", "--profile", "--region"}, name) {
			break
		}
		leading++
		if !hasValue {
			leading++
		}
	}
	leading = min(leading, len(args))
	end := leading
	for node := root; end < len(args); end++ {
		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == args[end] })
		if at < 0 {
			break
		}
		node = node.Children[at]
	}
	if end == leading {
		return args[leading:]
	}
	return slices.Concat(args[leading:end], args[:leading], args[end:])
}

// checkListen refuses what is no address and port of this machine. Only this machine may reach the servers
// that commands start: not all of them check signatures.
func checkListen(listen, example string) error {
	_, port, err := net.SplitHostPort(listen)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return fmt.Errorf("--listen is %q, expected address:port such as %s", listen, example)
	}
	if !transport.IsLoopback(listen) {
		return fmt.Errorf("--listen is %q, expected a loopback address such as %s", listen, example)
	}
	return nil
}

// fleetFlags describe a simulated AWS.
type fleetFlags struct {
	Zones   int    `default:"3" help:"Number of Availability Zones that the instances are spread over (1-6)."`
	Type    string `default:"m5.large" help:"EC2 type of new instances."`
	Cluster string `default:"default" help:"Name of the cluster."`
	// Start times, launch times and failures are drawn from the seed.
	Seed   uint64 `default:"1" help:"Everything that the simulated AWS does by chance follows from this number."`
	Region string `default:"us-east-1" help:"Region in ARNs and zone names."`
}

// checkFleetFlags checks these flags and those that differ only in their defaults between commands.
func (f *fleetFlags) checkFleetFlags(nodes, leastNodes int, listen, account string) error {
	if err := checkListen(listen, "127.0.0.1:5252"); err != nil {
		return err
	}
	switch {
	case nodes < leastNodes || nodes > maxNodes:
		return fmt.Errorf("--nodes is %d, expected %d to %d", nodes, leastNodes, maxNodes)
	case f.Zones < 1 || f.Zones > 6:
		return fmt.Errorf("--zones is %d, expected 1 to 6", f.Zones)
	case !regions.MatchString(f.Region):
		return fmt.Errorf("--region is %q, expected a Region such as us-east-1", f.Region)
	case len(account) != 12 || strings.Trim(account, "0123456789") != "":
		return fmt.Errorf("--account is %q, expected 12 digits", account)
	case !slices.Contains(ec2.MachineTypes(), f.Type):
		return fmt.Errorf("--type is %q, expected %s%s", f.Type, choice.List(ec2.MachineTypes()),
			choice.DidYouMean(f.Type, ec2.MachineTypes()))
	}
	return checkClusterName(f.Cluster)
}

// maxNodes is the most container instances that ECS allows in a cluster.
const maxNodes = 5000

// fleetMachine is what the fleet's instances run on: zones a, b, c ... of the Region in turn.
func (f *fleetFlags) fleetMachine() ec2.Machine {
	m := ec2.Machine{Type: f.Type}
	for i := range f.Zones {
		m.Zones = append(m.Zones, f.Region+string(rune('a'+i)))
	}
	return m
}

// checkScoring refuses names that are no scoring. flag is the flag that has the name.
func checkScoring(flag, name string) error {
	if !slices.Contains(placement.ScoringNames(), name) {
		return fmt.Errorf("%s is %q, expected %s%s", flag, name, choice.List(placement.ScoringNames()),
			choice.DidYouMean(name, placement.ScoringNames()))
	}
	return nil
}

// readList reads a list from a file, or the shipped one if no file is named. Errors name the file.
func readList[T any](path string, shipped func() ([]T, error), parse func(io.Reader) ([]T, error)) ([]T, error) {
	if path == "" {
		return shipped()
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// printable is an answer that people can read.
type printable interface{ Print(io.Writer) error }

// printAnswer writes an answer as JSON or for people.
func printAnswer(w io.Writer, asJSON bool, answer printable) error {
	if asJSON {
		return json.NewEncoder(w).Encode(answer)
	}
	return answer.Print(w)
}

// reportFlag is the flag of commands that can draw what they have measured.
type reportFlag struct {
	Report string `help:"Also draw the result, in one HTML file." type:"path" placeholder:"FILE"`

	file *wholeFile // nil unless the flag is given
}

// createReport creates the file that the flag names, before the work whose result it shows. discardReport
// must be called at the end.
func (r *reportFlag) createReport() error {
	if r.Report == "" {
		return nil
	}
	file, err := createWholeFile(r.Report)
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	r.file = file
	return nil
}

// discardReport removes a file that writeReport has not written.
func (r *reportFlag) discardReport() {
	if r.file != nil {
		r.file.discard()
	}
}

// writeReport writes the file that createReport has created, if there is one: the figures, and the text that
// the command prints for people.
func (r *reportFlag) writeReport(
	s *streams, title string, text interface{ Print(w io.Writer) error }, figures []template.HTML,
) error {
	if r.file == nil {
		return nil
	}
	var printed strings.Builder
	if err := text.Print(&printed); err != nil {
		return err
	}
	command := "berth"
	for _, a := range s.args {
		command += " " + problem.QuoteArgument(a)
	}
	page := chart.Report{Title: title, Command: command, Text: printed.String(), Figures: figures}
	if err := r.file.write(page.Write); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// isLocal reports whether a URL is one of this machine.
func isLocal(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err != nil || transport.IsLoopback(u.Host)
}

// callersOf says what commands need, beside the environment, to reach the Berth that the flags name.
func callersOf(e client.Endpoint) (c problem.Callers) {
	account := ""
	if e.Profile != "" {
		account += " --profile " + problem.QuoteArgument(e.Profile)
	}
	if e.Region != "" {
		account += " --region " + problem.QuoteArgument(e.Region)
	}
	inEnvironment := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_ECS"), os.Getenv("AWS_ENDPOINT_URL"))
	endpoint := cmp.Or(e.Endpoint, inEnvironment, client.DefaultEndpoint)
	c.Berth, c.Others = account, account
	switch {
	case e.Stack != "":
		c.Berth = " --stack " + problem.QuoteArgument(e.Stack) + account
	case e.Endpoint != "":
		c.Berth = " --endpoint " + problem.QuoteArgument(e.Endpoint) + account
	}
	switch {
	case e.Stack != "" || e.Endpoint == "" && os.Getenv("BERTH_STACK") != "", !isLocal(endpoint):
		c.Proxy = "berth proxy" + c.Berth + " --"
	case endpoint != inEnvironment || os.Getenv("AWS_ENDPOINT_URL") == "":
		flag := " --endpoint-url " + problem.QuoteArgument(endpoint)
		if endpoint != inEnvironment {
			c.API = flag
		}
		c.API, c.Others = c.API+account, flag+account
	default:
		c.API = account
	}
	return c
}
