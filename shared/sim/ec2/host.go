package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

// Host is an EC2 instance: a machine of the fleet, whether or not it has registered with a cluster.
type Host struct {
	ID, Zone, Type, Image string
	State                 HostState
	LaunchedAt            time.Time
	Group                 string // the Auto Scaling group that launched it, or ""
	// Interfaces counts its network interfaces, those of its tasks too.
	Interfaces int
}

// HostState is the state of an EC2 instance.
type HostState string

// The states that a host can be in. Those that only a call's answer has are in [hostChanges].
const (
	HostPending    HostState = "pending"
	HostRunning    HostState = "running"
	HostStopped    HostState = "stopped"
	HostTerminated HostState = "terminated"
)

// stateCodes are EC2's numbers of the states.
var stateCodes = map[HostState]int{HostPending: 0, HostRunning: 16, "shutting-down": 32, HostTerminated: 48,
	"stopping": 64, HostStopped: 80}

// Hosts are the machines of the fleet, for the operations on EC2 instances. Its methods belong in a
// step; ids are those of hosts that are there.
type Hosts interface {
	// Hosts returns those that are there or were terminated a while ago, in order of launch.
	Hosts() []Host
	// TerminateHost, StopHost and StartHost do nothing for a host that is in that state.
	TerminateHost(id string, now time.Time)
	StopHost(id string, now time.Time)
	StartHost(id string, now time.Time)
}

// HostActions returns the operations on EC2 instances that are simulated.
func HostActions(k *kernel.Kernel, hosts Hosts) map[string]protocol.Action {
	a := &hostAPI{k, hosts}
	actions := map[string]protocol.Action{"DescribeInstances": protocol.StrictAction(a.describeInstances),
		"DescribeNetworkInterfaces": protocol.StrictAction(a.describeNetworkInterfaces),
		"GetConsoleOutput":          protocol.StrictAction(a.getConsoleOutput)}
	for name, change := range hostChanges(hosts) {
		actions[name] = protocol.StrictAction(func(_ context.Context, in *instanceInput) (any, error) {
			return a.changeHosts(in.InstanceId, change)
		})
	}
	return actions
}

// hostAPI answers calls about EC2 instances.
type hostAPI struct {
	kernel *kernel.Kernel
	hosts  Hosts
}

type instanceInput struct{ InstanceId []string }

// hostChange is an operation that changes the state of hosts. The answer says what EC2 has begun;
// here it is done at once.
type hostChange struct {
	apply  func(id string, now time.Time)
	begins HostState
	// done is the state in which there is nothing to do, from are those that allow the change.
	done HostState
	from []HostState
}

// hostChanges are the operations that change the state of hosts.
func hostChanges(hosts Hosts) map[string]hostChange {
	return map[string]hostChange{
		"TerminateInstances": {hosts.TerminateHost, "shutting-down", HostTerminated,
			[]HostState{HostPending, HostRunning, HostStopped}},
		"StopInstances":  {hosts.StopHost, "stopping", HostStopped, []HostState{HostRunning}},
		"StartInstances": {hosts.StartHost, HostPending, HostRunning, []HostState{HostStopped}},
	}
}

type (
	xmlState struct {
		Code int       `xml:"code"`
		Name HostState `xml:"name"`
	}
	xmlChange struct {
		ID       string   `xml:"instanceId"`
		Current  xmlState `xml:"currentState"`
		Previous xmlState `xml:"previousState"`
	}
	xmlHost struct {
		ID       string   `xml:"instanceId"`
		Image    string   `xml:"imageId"`
		State    xmlState `xml:"instanceState"`
		Type     string   `xml:"instanceType"`
		Launched string   `xml:"launchTime"`
		Zone     string   `xml:"placement>availabilityZone"`
		Tags     []xmlTag `xml:"tagSet>item"`
	}
	xmlReservation struct {
		ID    string    `xml:"reservationId"`
		Owner string    `xml:"ownerId"`
		Hosts []xmlHost `xml:"instancesSet>item"`
	}
)

func describeState(s HostState) xmlState { return xmlState{stateCodes[s], s} }

var hostID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// findHosts returns the hosts with the ids, or EC2's error for the first one that is none.
func (a *hostAPI) findHosts(ids []string) ([]Host, error) {
	all := a.hosts.Hosts()
	found := make([]Host, 0, len(ids))
	for _, id := range ids {
		if !hostID.MatchString(id) {
			return nil, cluster.Errorf("InvalidInstanceID.Malformed", "Invalid id: \"%.64s\"", id)
		}
		at := slices.IndexFunc(all, func(h Host) bool { return h.ID == id })
		if at < 0 {
			return nil, cluster.Errorf("InvalidInstanceID.NotFound", "The instance ID '%.64s' does not exist", id)
		}
		found = append(found, all[at])
	}
	return found, nil
}

// changeHosts changes all hosts named, or none if one of them cannot be changed.
func (a *hostAPI) changeHosts(ids []string, change hostChange) (any, error) {
	if len(ids) == 0 {
		return nil, cluster.Errorf("MissingParameter", "The request must contain the parameter InstanceId")
	}
	var out struct {
		Changes []xmlChange `xml:"instancesSet>item"`
	}
	err := a.kernel.Change(func(now time.Time) error {
		hosts, err := a.findHosts(ids)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if h.State != change.done && !slices.Contains(change.from, h.State) {
				return cluster.Errorf("IncorrectInstanceState",
					"The instance '%s' is not in a state from which it can be %s: it is %s.", h.ID, change.done,
					h.State)
			}
		}
		for _, h := range hosts {
			current := h.State
			if h.State != change.done {
				change.apply(h.ID, now)
				current = change.begins
			}
			out.Changes = append(out.Changes, xmlChange{h.ID, describeState(current), describeState(h.State)})
		}
		return nil
	})
	return out, err
}

// describeNetworkInterfaces describes the network interfaces of all hosts and their tasks. With a
// filter it finds those of load balancers, which Terraform deletes after a load balancer; simulated
// ones have none.
func (a *hostAPI) describeNetworkInterfaces(_ context.Context, in *struct {
	Filter []struct {
		Name  string
		Value []string
	}
	MaxResults int `default:"1000"`
	NextToken  string
}) (any, error) {
	ofBalancer := false
	for _, f := range in.Filter {
		ofBalancer = ofBalancer || f.Name == "description" && len(f.Value) == 1 && strings.HasPrefix(f.Value[0], "ELB ")
	}
	if len(in.Filter) > 0 && !ofBalancer {
		return nil, cluster.Errorf("InvalidParameterValue",
			"The simulated AWS finds network interfaces by a load balancer's description alone (ELB NAME), or all")
	}
	type item struct {
		ID   string `xml:"networkInterfaceId"`
		Host string `xml:"attachment>instanceId"`
	}
	var all []item
	err := a.kernel.View(func(time.Time) error {
		for _, h := range a.hosts.Hosts() {
			for n := range h.Interfaces {
				if !ofBalancer {
					all = append(all, item{fmt.Sprintf("eni-%s%03x", strings.TrimPrefix(h.ID, "i-"), n), h.ID})
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out struct {
		Interfaces []item `xml:"networkInterfaceSet>item"`
		Next       string `xml:"nextToken,omitempty"`
	}
	out.Interfaces, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxResults, 1000)
	return out, err
}

// getConsoleOutput returns what a host printed at its start. Simulated ones print one line.
func (a *hostAPI) getConsoleOutput(_ context.Context, in *struct {
	InstanceId string
	Latest     bool
}) (any, error) {
	var out struct {
		ID     string `xml:"instanceId"`
		At     string `xml:"timestamp"`
		Output string `xml:"output"`
	}
	err := a.kernel.View(func(time.Time) error {
		found, err := a.findHosts([]string{in.InstanceId})
		if err != nil {
			return err
		}
		h := found[0]
		out.ID, out.At = h.ID, protocol.FormatXMLTime(h.LaunchedAt)
		out.Output = base64.StdEncoding.EncodeToString(fmt.Appendf(nil,
			"%s simulated machine %s (%s, image %s) is %s\n", out.At, h.ID, h.Type, h.Image, h.State))
		return nil
	})
	return out, err
}

// hostFilters are the filters of DescribeInstances that are simulated.
var hostFilters = map[string]func(Host) string{
	"availability-zone":             func(h Host) string { return h.Zone },
	"image-id":                      func(h Host) string { return h.Image },
	"instance-id":                   func(h Host) string { return h.ID },
	"instance-state-name":           func(h Host) string { return string(h.State) },
	"instance-type":                 func(h Host) string { return h.Type },
	"tag:aws:autoscaling:groupName": func(h Host) string { return h.Group },
}

// describeInstances describes the hosts named, or all, as far as they pass the filters: each as a
// reservation of its own.
func (a *hostAPI) describeInstances(_ context.Context, in *struct {
	InstanceId []string
	Filter     []struct {
		Name  string
		Value []string
	}
	MaxResults int `default:"1000"`
	NextToken  string
}) (any, error) {
	for _, f := range in.Filter {
		if hostFilters[f.Name] == nil {
			return nil, cluster.Errorf("InvalidParameterValue",
				"The filter '%.64s' is invalid: the simulated AWS knows %q",
				f.Name, slices.Sorted(maps.Keys(hostFilters)))
		}
	}
	var all []xmlReservation
	err := a.kernel.View(func(time.Time) error {
		hosts, err := a.findHosts(in.InstanceId)
		if len(in.InstanceId) == 0 {
			hosts = a.hosts.Hosts()
		}
		for _, h := range hosts {
			passes := true
			for _, f := range in.Filter {
				passes = passes && slices.Contains(f.Value, hostFilters[f.Name](h))
			}
			if passes {
				all = append(all, xmlReservation{"r-" + h.ID[2:], a.kernel.Account.ID, []xmlHost{h.describe()}})
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out struct {
		Reservations []xmlReservation `xml:"reservationSet>item"`
		Next         string           `xml:"nextToken,omitempty"`
	}
	out.Reservations, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxResults, 1000)
	return out, err
}

func (h Host) describe() xmlHost {
	out := xmlHost{ID: h.ID, Image: cmp.Or(h.Image, DefaultImage), State: describeState(h.State), Type: h.Type,
		Launched: protocol.FormatXMLTime(h.LaunchedAt), Zone: h.Zone}
	if h.Group != "" {
		out.Tags = []xmlTag{{"aws:autoscaling:groupName", h.Group}}
	}
	return out
}
