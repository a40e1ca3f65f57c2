package sim_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"berth/shared/sim"
)

// Terraform looks for the network interfaces of a Classic Load Balancer that it has deleted: there
// are none. Other filters are refused.
func TestNetworkInterfacesOfABalancer(t *testing.T) {
	w := newWorld(t, sim.Options{})
	for filters, want := range map[string]int{
		"attachment.instance-owner-id=amazon-elb&description=ELB front": http.StatusOK,
		"description=ELB front&attachment.instance-owner-id=amazon-elb": http.StatusOK,
		"description=other": http.StatusBadRequest, "subnet-id=subnet-1": http.StatusBadRequest,
	} {
		fields := url.Values{"Action": {"DescribeNetworkInterfaces"}, "Version": {"2016-11-15"}}
		for n, f := range strings.FieldsFunc(filters, func(r rune) bool { return r == '&' }) {
			name, value, _ := strings.Cut(f, "=")
			at := "Filter." + string(rune('1'+n)) + "."
			fields.Set(at+"Name", name)
			fields.Set(at+"Value.1", value)
		}
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(fields.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
		got := httptest.NewRecorder()
		w.ServeProtocols(http.NotFoundHandler()).ServeHTTP(got, r)
		if got.Code != want || strings.Contains(got.Body.String(), "<item>") {
			t.Errorf("%q: %d %s, want %d and no interface", filters, got.Code, got.Body, want)
		}
	}
}

// Without a filter all network interfaces are described: one of each machine, and none of a machine
// that is terminated.
func TestNetworkInterfacesOfMachines(t *testing.T) {
	w := newGroupWorld(t, 3, nil)
	interfaces := func() int {
		_, answer := w.asked(computeVersion, "DescribeNetworkInterfaces")
		return strings.Count(answer, "<networkInterfaceId>")
	}
	w.want("interfaces of 3 machines that are launched", interfaces(), 3)
	w.clock.advance(launch)
	w.want("interfaces of 3 machines", interfaces(), 3)
	w.compute("TerminateInstances", w.group().Instances[0].ID)
	w.want("interfaces after one is terminated", interfaces(), 2)
}
