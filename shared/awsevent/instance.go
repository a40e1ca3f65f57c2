package awsevent

import (
	"strconv"
	"time"

	"berth/shared/cluster"
)

// instanceDetail has the members of ECS's ContainerInstance that Berth reads (ECS Developer Guide,
// "Amazon ECS container instance state change events").
type instanceDetail struct {
	ARN            string      `json:"containerInstanceArn"`
	ClusterARN     string      `json:"clusterArn"`
	EC2InstanceID  string      `json:"ec2InstanceId"`
	Status         string      `json:"status"`
	AgentConnected bool        `json:"agentConnected"`
	RegisteredAt   time.Time   `json:"registeredAt"`
	Version        int64       `json:"version"`
	Registered     []resource  `json:"registeredResources"`
	Attributes     []attribute `json:"attributes"`
	Provider       string      `json:"capacityProviderName"`
	VersionInfo    struct {
		AgentVersion string `json:"agentVersion"`
	} `json:"versionInfo"`
}

// resource is ECS's Resource. Its type says which of the values is set.
type resource struct {
	Name         string   `json:"name"`
	Type         string   `json:"type"`
	IntegerValue int64    `json:"integerValue"`
	LongValue    int64    `json:"longValue"`
	StringSet    []string `json:"stringSetValue"`
}

type attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// instanceStatuses maps ECS's status to Berth's.
var instanceStatuses = map[string]cluster.InstanceStatus{
	"REGISTERING": cluster.InstanceRegistering, "REGISTRATION_FAILED": cluster.InstanceFailed,
	"ACTIVE": cluster.InstanceActive, "DRAINING": cluster.InstanceDraining,
	"DEREGISTERING": cluster.InstanceDeregistering, "INACTIVE": cluster.InstanceInactive,
}

// readInstance reads a container instance's state. As with tasks, version orders the events.
func readInstance(e *envelope) (any, error) {
	var d instanceDetail
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	i := &cluster.Instance{
		EC2InstanceID: d.EC2InstanceID, Status: instanceStatuses[d.Status], AgentConnected: d.AgentConnected,
		AgentVersion: d.VersionInfo.AgentVersion, Version: d.Version, RegisteredAt: cluster.At(d.RegisteredAt),
		Provider: d.Provider,
	}
	var err error
	switch {
	case i.Status == "":
		return nil, malformed(e.DetailType, "status %.40q", d.Status)
	case d.Version < 1:
		return nil, malformed(e.DetailType, "version %d", d.Version)
	}
	if _, i.ID, err = parseARN(e, "containerInstanceArn", d.ARN, "container-instance"); err != nil {
		return nil, err
	}
	if _, i.Cluster, err = parseARN(e, "clusterArn", d.ClusterARN, "cluster"); err != nil {
		return nil, err
	}
	if len(d.Attributes) > 0 {
		i.Attributes = make(map[string]string, len(d.Attributes))
	}
	for _, a := range d.Attributes {
		i.Attributes[a.Name] = a.Value
	}
	i.Registered, err = readCapacity(e, d.Registered)
	i.SetENIs()
	return i, err
}

// readCapacity reads registeredResources: what ECS itself counts, and metrics. PORTS and PORTS_UDP
// are the ports that the agent reserves.
func readCapacity(e *envelope, registered []resource) (cluster.Capacity, error) {
	var c cluster.Capacity
	var err error
	for _, r := range registered {
		if r.IntegerValue < 0 || r.IntegerValue > maxUnits || r.LongValue < 0 || r.LongValue > maxUnits {
			return c, malformed(e.DetailType, "registeredResources %.40q is %d", r.Name, r.IntegerValue)
		}
		switch r.Name {
		case "CPU":
			c.CPU = r.IntegerValue * cluster.CPUUnit
		case "MEMORY":
			c.Memory = r.IntegerValue
		case "GPU":
			c.GPUs = r.StringSet
		case "PORTS":
			c.Ports, err = addPorts(e, c.Ports, r.StringSet, cluster.TCP)
		case "PORTS_UDP":
			c.Ports, err = addPorts(e, c.Ports, r.StringSet, cluster.UDP)
		case "ENI":
			c.ENIs = new(int(r.IntegerValue))
		default:
			addMetric(&c, r)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// addMetric sets the capacity of a metric: every other whole number that the instance registered
// (P9).
func addMetric(c *cluster.Capacity, r resource) {
	if r.Type != "INTEGER" && r.Type != "LONG" {
		return
	}
	if c.Metrics == nil {
		c.Metrics = map[string]int64{}
	}
	c.Metrics[r.Name] = r.IntegerValue + r.LongValue // one of them is zero
}

// addPorts appends the ports that an instance registered as texts.
func addPorts(e *envelope, ports []cluster.Port, numbers []string, protocol cluster.Protocol) ([]cluster.Port, error) {
	for _, s := range numbers {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return nil, malformed(e.DetailType, "registeredResources port %.40q", s)
		}
		ports = append(ports, cluster.Port{Number: int(n), Protocol: protocol})
	}
	return ports, nil
}
