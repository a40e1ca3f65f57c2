package environment

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Users who need endpoints of FIPS or IPv6 set the variables that each SDK reads.
func TestEndpointVariables(t *testing.T) {
	for _, c := range []struct {
		value       string
		fips        aws.FIPSEndpointState
		dual        aws.DualStackEndpointState
		found, fail bool
	}{
		{"", aws.FIPSEndpointStateDisabled, aws.DualStackEndpointStateDisabled, false, false},
		{"true", aws.FIPSEndpointStateEnabled, aws.DualStackEndpointStateEnabled, true, false},
		{"TRUE", aws.FIPSEndpointStateEnabled, aws.DualStackEndpointStateEnabled, true, false},
		{"false", aws.FIPSEndpointStateDisabled, aws.DualStackEndpointStateDisabled, true, false},
		{"yes", aws.FIPSEndpointStateDisabled, aws.DualStackEndpointStateDisabled, false, true},
	} {
		t.Setenv("AWS_USE_FIPS_ENDPOINT", c.value)
		t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", c.value)
		fips, found, err := endpointVariables{}.GetUseFIPSEndpoint(context.Background())
		if fips != c.fips || found != c.found || (err != nil) != c.fail {
			t.Errorf("FIPS %q: %v, found %t, %v", c.value, fips, found, err)
		}
		dual, found, err := endpointVariables{}.GetUseDualStackEndpoint(context.Background())
		if dual != c.dual || found != c.found || (err != nil) != c.fail {
			t.Errorf("dual stack %q: %v, found %t, %v", c.value, dual, found, err)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL_AUTO_SCALING", "http://127.0.0.1:1")
	url, found, _ := endpointVariables{}.GetServiceBaseEndpoint(context.Background(), "Auto Scaling")
	if url != "http://127.0.0.1:1" || !found {
		t.Errorf("endpoint of Auto Scaling: %q, found %t", url, found)
	}
	if _, found, _ = (endpointVariables{}).GetServiceBaseEndpoint(context.Background(), "ECS"); found {
		t.Error("an endpoint of ECS is found that no variable sets")
	}
}
