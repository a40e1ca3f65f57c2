package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/berthapi"
)

// limitCommand shows and changes the limits of applications, which are in the cluster's configuration.
// PutClusterConfiguration replaces that as a whole, so a change reads it first, and begins again if
// somebody else has changed it since.
type limitCommand struct {
	clusterFlags
	Application   string   `arg:"" optional:"" help:"Name of an application; all if it is missing."`
	MinimumNodes  *int     `help:"Instances for which reservations are kept." placeholder:"N"`
	MaximumNodes  *int     `help:"Most instances with tasks of the application." placeholder:"N"`
	NodeCapacity  []string `help:"Most load of a metric on an instance." sep:"none" placeholder:"METRIC=N"`
	TotalCapacity []string `help:"Most load of a metric in all." sep:"none" placeholder:"METRIC=N"`
	Reservation   []string `help:"Load reserved on each instance in use." sep:"none" placeholder:"METRIC=N"`
	JSON          bool     `help:"Print JSON."`
}

// Validate refuses limits that cannot be read, and limits without an application.
func (l *limitCommand) Validate() error {
	if l.changes() && l.Application == "" {
		return errors.New("expected the name of an application whose limits are to change")
	}
	for flag, values := range map[string][]string{"--node-capacity": l.NodeCapacity,
		"--total-capacity": l.TotalCapacity, "--reservation": l.Reservation} {
		for _, text := range values {
			if _, _, err := readMetricLimit(text); err != nil {
				return fmt.Errorf("%s is %q, %w", flag, text, err)
			}
		}
	}
	return l.clusterFlags.Validate()
}

func (l *limitCommand) changes() bool {
	return l.MinimumNodes != nil || l.MaximumNodes != nil ||
		len(l.NodeCapacity)+len(l.TotalCapacity)+len(l.Reservation) > 0
}

// readMetricLimit reads METRIC=N.
func readMetricLimit(text string) (metric string, limit int64, err error) {
	at := strings.LastIndexByte(text, '=')
	if at > 0 {
		limit, err = strconv.ParseInt(text[at+1:], 10, 64)
	}
	if at <= 0 || err != nil || limit < 0 {
		return "", 0, errors.New("expected METRIC=N such as connections=200, where 0 is no limit")
	}
	return text[:at], limit, nil
}

// limits is what the command prints as JSON.
type limits struct {
	Applications map[string]berthapi.Application `json:"applications"`
}

// Run prints the limits, after it has changed them if a flag says so.
func (l *limitCommand) Run(ctx context.Context, s *streams) error {
	c, err := l.newClient(ctx)
	if err != nil {
		return err
	}
	read, err := l.read(ctx, c)
	if err != nil {
		return err
	}
	configuration := read.Configuration
	if _, had := configuration.Applications[l.Application]; !had && l.Application != "" {
		if err := l.checkName(ctx, c, s, configuration); err != nil {
			return err
		}
	}
	if l.changes() {
		if configuration, err = l.put(ctx, c, read); err != nil {
			return err
		}
	}
	shown := limits{map[string]berthapi.Application{}}
	for name, a := range configuration.Applications {
		if l.Application == "" || name == l.Application {
			shown.Applications[name] = a
		}
	}
	if l.JSON {
		return json.NewEncoder(s.out).Encode(shown)
	}
	return l.print(s.out, shown.Applications)
}

// read returns the cluster's configuration as it is now.
func (l *limitCommand) read(ctx context.Context, c *client.Client) (*berthapi.ConfigurationOutput, error) {
	var read berthapi.ConfigurationOutput
	in := berthapi.ClusterInput{Cluster: l.Cluster}
	if err := c.CallBerth(ctx, "DescribeClusterConfiguration", in, &read); err != nil {
		return nil, explainUnknownCluster(ctx, c, l.Cluster, err)
	}
	return &read, checkConfiguration("DescribeClusterConfiguration", &read)
}

// checkConfiguration refuses an answer that is no answer of Berth's.
func checkConfiguration(operation string, out *berthapi.ConfigurationOutput) error {
	if out.Configuration == nil {
		return fmt.Errorf("%s: the answer has no configuration, expected an answer of Berth's", operation)
	}
	return nil
}

// maxLimitTries bounds how often a change is tried while others change the same configuration. Of so
// many commands at once, each succeeds.
const maxLimitTries = 20

// put changes the configuration that was read, and returns what it has become. If somebody else has
// changed it since, it is read again. An installation of an earlier version has no revisions, and
// replaces any configuration.
func (l *limitCommand) put(
	ctx context.Context, c *client.Client, read *berthapi.ConfigurationOutput,
) (*berthapi.Configuration, error) {
	for try := 1; ; try++ {
		l.change(read.Configuration)
		in := berthapi.PutConfigurationInput{Cluster: l.Cluster, Configuration: read.Configuration,
			Revision: read.Revision}
		var put berthapi.ConfigurationOutput
		err := c.CallBerth(ctx, "PutClusterConfiguration", in, &put)
		if err == nil {
			err = checkConfiguration("PutClusterConfiguration", &put)
		}
		if err == nil || try == maxLimitTries || cluster.ErrorCode(err) != cluster.CodeConflict {
			return put.Configuration, err
		}
		if read, err = l.read(ctx, c); err != nil {
			return nil, err
		}
	}
}

// checkName looks for the services of an application that the configuration does not name. To ask about one that
// has none is an error. To limit it is none, because services may follow, so a near name is only mentioned.
func (l *limitCommand) checkName(ctx context.Context, c *client.Client, s *streams, of *berthapi.Configuration) error {
	src, err := readLiveCluster(ctx, c, l.Cluster, s)
	if err != nil {
		return err
	}
	known := slices.Collect(maps.Keys(of.Applications))
	for _, service := range src.snap.Services {
		if name := service.Rules.Application; name != "" && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	switch {
	case slices.Contains(known, l.Application):
		return nil
	case !l.changes():
		return &whatif.NotFound{Kind: "application", Name: l.Application, Known: known}
	}
	_, err = fmt.Fprintf(s.err, "berth: no service of cluster %s is of application %q%s\n", l.Cluster, l.Application,
		choice.End(l.Application, known))
	return err
}

// change sets the limits that the flags name. An application or metric without any is removed.
func (l *limitCommand) change(of *berthapi.Configuration) {
	if of.Applications == nil {
		of.Applications = map[string]berthapi.Application{}
	}
	a := of.Applications[l.Application]
	a.Metrics = maps.Clone(a.Metrics)
	if a.Metrics == nil {
		a.Metrics = map[string]berthapi.ApplicationMetric{}
	}
	if l.MinimumNodes != nil {
		a.MinimumNodes = *l.MinimumNodes
	}
	if l.MaximumNodes != nil {
		a.MaximumNodes = *l.MaximumNodes
	}
	set := func(values []string, member func(*berthapi.ApplicationMetric) *int64) {
		for _, text := range values {
			metric, limit, _ := readMetricLimit(text) // Validate has read it
			m := a.Metrics[metric]
			*member(&m) = limit
			a.Metrics[metric] = m
		}
	}
	set(l.NodeCapacity, func(m *berthapi.ApplicationMetric) *int64 { return &m.MaximumNodeCapacity })
	set(l.TotalCapacity, func(m *berthapi.ApplicationMetric) *int64 { return &m.TotalApplicationCapacity })
	set(l.Reservation, func(m *berthapi.ApplicationMetric) *int64 { return &m.NodeReservationCapacity })
	maps.DeleteFunc(a.Metrics, func(_ string, m berthapi.ApplicationMetric) bool {
		return m == berthapi.ApplicationMetric{}
	})
	of.Applications[l.Application] = a
	if a.MinimumNodes == 0 && a.MaximumNodes == 0 && len(a.Metrics) == 0 {
		delete(of.Applications, l.Application)
	}
}

// print writes a line for each application.
func (l *limitCommand) print(w io.Writer, shown map[string]berthapi.Application) error {
	if len(shown) == 0 {
		text := fmt.Sprintf("No application of cluster %s has limits.", l.Cluster)
		if l.Application != "" {
			text = fmt.Sprintf("Application %s has no limits.", l.Application)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if _, err := fmt.Fprintf(w, "Application %s: %s.\n", name, describeApplication(shown[name])); err != nil {
			return err
		}
	}
	return nil
}

// describeApplication returns an application's limits in words: "at most 5 instances; connections: at
// most 200 on an instance, at most 1000 in all".
func describeApplication(a berthapi.Application) string {
	var parts []string
	nodes := listLimits(limit{int64(a.MinimumNodes), "room kept for %d instances"},
		limit{int64(a.MaximumNodes), "at most %d instances"})
	if nodes != "" {
		parts = append(parts, nodes)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Metrics)) {
		m := a.Metrics[name]
		parts = append(parts, name+": "+listLimits(limit{m.MaximumNodeCapacity, "at most %d on an instance"},
			limit{m.TotalApplicationCapacity, "at most %d in all"},
			limit{m.NodeReservationCapacity, "%d reserved on each instance in use"}))
	}
	return strings.Join(parts, "; ")
}

// limit is a number and the words for it.
type limit struct {
	number int64
	words  string
}

// listLimits returns the limits that are set.
func listLimits(all ...limit) string {
	var parts []string
	for _, l := range all {
		if l.number > 0 {
			parts = append(parts, fmt.Sprintf(l.words, l.number))
		}
	}
	return strings.Join(parts, ", ")
}
