package servicequotas

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
	"berth/shared/sim/protocol"
)

// A definition is a quota as AWS defines it. Class is that of its usage metric, "" where it has
// none.
type definition struct {
	service, code, name string
	standard            float64 // AWS's value for a new account
	class               string
	// families are the beginnings of the instance types whose vCPUs it bounds.
	families []string
}

// definitions are the simulated quotas, with AWS's codes and names.
var definitions = []definition{
	{"ec2", "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5, "Standard/OnDemand",
		[]string{"c", "m", "r", "t"}},
	{"ec2", "L-DB2E81BA", "Running On-Demand G and VT instances", 0, "G/OnDemand", []string{"g"}},
	{"ec2", "L-417A185B", "Running On-Demand P instances", 0, "P/OnDemand", []string{"p"}},
	{"ec2", "L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", 5, "Standard/Spot", nil},
	{"ec2", "L-3819A6DF", "All G and VT Spot Instance Requests", 0, "G/Spot", nil},
	{"ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", 0, "P/Spot", nil},
	{"ec2", "L-FB451C26", "Launch templates per Region", 5000, "", nil},
	{"vpc", "L-DF5E4CA3", "Network interfaces per Region", 5000, "", nil},
}

// grantedAtFirst is the value of each quota of the simulated account, which no fleet uses up.
const grantedAtFirst = 1_000_000

func findDefinition(service, code string) (definition, error) {
	for _, d := range definitions {
		if d.service == service && d.code == code {
			return d, nil
		}
	}
	return definition{}, cluster.Errorf("NoSuchResourceException",
		"The request failed because the specified service quota %.64s of %.64s does not exist", code, service)
}

// applied is the value of a quota that was changed, as stored.
type applied struct {
	Service, Code string
	Value         float64
}

const bucket = "quotas"

// StoredRow implements [kernel.Row].
func (a *applied) StoredRow() (string, string, any) { return bucket, a.Service + "/" + a.Code, a }

// Service is Service Quotas.
type Service struct {
	kernel.Table[*applied]
	kernel *kernel.Kernel
	usage  func() map[string]int // running vCPUs by instance type
}

// NewService returns a service in which no quota has been changed. usage returns the vCPUs of the
// running instances by instance type; it belongs in a step.
func NewService(k *kernel.Kernel, usage func() map[string]int) *Service {
	return &Service{kernel.NewTable[*applied](bucket), k, usage}
}

// SetQuota sets a quota of the account, to a lower value too, which AWS itself does not do.
func (s *Service) SetQuota(service, code string, value float64) error {
	return s.kernel.Change(func(time.Time) error {
		_, err := findDefinition(service, code)
		if err == nil && value < 0 {
			err = cluster.Errorf("IllegalArgumentException", "A quota is not negative: %g", value)
		}
		if err == nil {
			s.apply(service, code, value)
		}
		return err
	})
}

func (s *Service) apply(service, code string, value float64) {
	a := &applied{service, code, value}
	s.Rows[service+"/"+code] = a
	s.kernel.SaveRow(a)
}

func (s *Service) valueOf(d definition) float64 {
	if a := s.Rows[d.service+"/"+d.code]; a != nil {
		return a.Value
	}
	return grantedAtFirst
}

// used returns how many vCPUs run of the families of a quota.
func (s *Service) used(d definition) (n int) {
	for machine, vcpus := range s.usage() {
		if d.bounds(machine) {
			n += vcpus
		}
	}
	return n
}

func (d definition) bounds(machine string) bool {
	for _, family := range d.families {
		if strings.HasPrefix(machine, family) {
			return true
		}
	}
	return false
}

// HasRoom reports whether one more machine of an instance type may be launched. Every simulated
// machine is On-Demand. Unchanged quotas have room. It belongs in a step.
func (s *Service) HasRoom(machine string) bool {
	t, _ := ec2.InstanceType(machine)
	for _, d := range definitions {
		if a := s.Rows[d.service+"/"+d.code]; a != nil && d.bounds(machine) {
			return float64(s.used(d)+t.VCPUs) <= a.Value
		}
	}
	return true
}

// The namespace and the name of usage metrics.
const usageNamespace, usageName = "AWS/Usage", "ResourceCount"

func (d definition) dimensions() map[string]string {
	return map[string]string{"Class": d.class, "Resource": "vCPU", "Service": "EC2", "Type": "Resource"}
}

// Usage returns the value of a usage metric; false for a metric that is none. It belongs in a step.
func (s *Service) Usage(namespace, name string, dimensions map[string]string) (float64, bool) {
	for _, d := range definitions {
		if d.class != "" && namespace == usageNamespace && name == usageName && dimensions["Class"] == d.class &&
			dimensions["Resource"] == "vCPU" && dimensions["Service"] == "EC2" {
			return float64(s.used(d)), true
		}
	}
	return 0, false
}

// ServeJSON answers a call of Service Quotas.
func (s *Service) ServeJSON(w http.ResponseWriter, operation string, body []byte) {
	protocol.JSON11.ServeTree(w, body, func(tree protocol.Tree) (out protocol.Tree, err error) {
		var in struct {
			ServiceCode, QuotaCode string
			DesiredValue           float64
		}
		if err := protocol.DecodeTree(tree, &in); err != nil {
			return nil, err
		}
		if operation != "GetServiceQuota" && operation != "GetAWSDefaultServiceQuota" &&
			operation != "RequestServiceQuotaIncrease" {
			return nil, protocol.UnknownOperation(operation)
		}
		d, err := findDefinition(in.ServiceCode, in.QuotaCode)
		if err != nil {
			return nil, err
		}
		switch operation {
		case "GetServiceQuota":
			err = s.kernel.CallView(operation, d.code, func(time.Time) error {
				out = protocol.Tree{"Quota": s.describe(d, s.valueOf(d))}
				return nil
			})
		case "GetAWSDefaultServiceQuota":
			out = protocol.Tree{"Quota": s.describe(d, d.standard)}
		default:
			err = s.kernel.Call(operation, d.code, func(time.Time) error { return s.increase(d, in.DesiredValue) })
			out = protocol.Tree{"RequestedQuota": protocol.Tree{"ServiceCode": d.service, "QuotaCode": d.code,
				"QuotaName": d.name, "DesiredValue": in.DesiredValue, "Status": "APPROVED"}}
		}
		return out, err
	})
}

// increase grants an increase. As on AWS, the value must be larger than the present one.
func (s *Service) increase(d definition, value float64) error {
	if now := s.valueOf(d); value <= now {
		return cluster.Errorf("IllegalArgumentException",
			"The desired quota value %s must be larger than the current quota value %s", number(value), number(now))
	}
	s.apply(d.service, d.code, value)
	return nil
}

func number(v float64) string { return fmt.Sprintf("%g", v) }

// describe returns a quota with a value. Quotas of vCPUs name their usage metric.
func (s *Service) describe(d definition, value float64) protocol.Tree {
	out := protocol.Tree{"ServiceCode": d.service, "QuotaCode": d.code, "QuotaName": d.name, "Value": value,
		"Unit": "None", "Adjustable": true, "GlobalQuota": false,
		"QuotaArn": s.kernel.ResourceARN("servicequotas", d.service+"/"+d.code)}
	if d.class != "" {
		dimensions := protocol.Tree{}
		for name, v := range d.dimensions() {
			dimensions[name] = v
		}
		out["UsageMetric"] = protocol.Tree{"MetricNamespace": usageNamespace, "MetricName": usageName,
			"MetricDimensions": dimensions, "MetricStatisticRecommendation": "Maximum"}
	}
	return out
}
