package proxy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// A Setting is what a process must find in its environment to call Berth. An empty value stands for
// a variable that must not be set.
type Setting struct{ Name, Value string }

// Environment returns the settings for a process that calls Berth at the endpoint, with the proxy's
// key as its credentials.
func (k Key) Environment(endpoint, region string) []Setting {
	return append(endpointSettings(endpoint, region),
		// The identity of the proxy's credentials, because no other endpoint knows the key.
		Setting{"AWS_ENDPOINT_URL_STS", endpoint},
		Setting{"AWS_ACCESS_KEY_ID", k.ID}, Setting{"AWS_SECRET_ACCESS_KEY", k.Secret},
		Setting{"AWS_SESSION_TOKEN", ""})
}

// LentEnvironment returns the settings for a process that calls Berth at the endpoint, and all
// other services of AWS with the given credentials.
func LentEnvironment(endpoint, region string, keys aws.Credentials) []Setting {
	return append(endpointSettings(endpoint, region),
		Setting{"AWS_ACCESS_KEY_ID", keys.AccessKeyID}, Setting{"AWS_SECRET_ACCESS_KEY", keys.SecretAccessKey},
		Setting{"AWS_SESSION_TOKEN", keys.SessionToken})
}

// LocalEnvironment returns the settings for a process that calls a Berth on this machine, and at the
// same address the simulated AWS beside it: Auto Scaling, Amazon EC2, CloudWatch and load balancers. If
// Berth checks no signatures, any key will do; otherwise the process has to have one of its own.
func LocalEnvironment(endpoint, region string, anyKey bool) []Setting {
	settings := endpointSettings(endpoint, region)
	if anyKey {
		settings = LentEnvironment(endpoint, region, aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"})
	}
	settings = append(settings, Setting{"AWS_ENDPOINT_URL", endpoint})
	for _, service := range simulatedServices {
		settings = append(settings, Setting{"AWS_ENDPOINT_URL_" + service, ""})
	}
	return settings
}

// simulatedServices are the services of the simulated AWS as the names of variables have them. One that
// is set would take precedence over AWS_ENDPOINT_URL.
var simulatedServices = []string{"AUTO_SCALING", "CLOUDWATCH", "EC2", "ELASTIC_LOAD_BALANCING",
	"ELASTIC_LOAD_BALANCING_V2", "IAM", "SERVICEDISCOVERY", "SERVICE_QUOTAS", "STS"}

// endpointSettings also removes what would make clients look elsewhere: a profile has credentials
// of its own, which some SDKs prefer.
func endpointSettings(endpoint, region string) []Setting {
	return []Setting{
		{"AWS_ENDPOINT_URL_ECS", endpoint}, {"AWS_ENDPOINT_URL_EKS", endpoint},
		{"AWS_REGION", region}, {"AWS_DEFAULT_REGION", region},
		{"AWS_PROFILE", ""}, {"AWS_DEFAULT_PROFILE", ""}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", ""},
		{"BERTH_STACK", ""},
	}
}

// ChangeEnvironment returns an environment, as NAME=value, with the settings. If it names an HTTP
// proxy, calls to this machine go past it.
func ChangeEnvironment(env []string, settings []Setting) []string {
	changed := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(settings, func(s Setting) bool { return s.Name == name })
	})
	for _, s := range settings {
		if s.Value != "" {
			changed = append(changed, s.Name+"="+s.Value)
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		changed = exceptLoopback(changed, name)
	}
	return changed
}

// exceptLoopback adds this machine to the hosts that are called without an HTTP proxy.
func exceptLoopback(env []string, name string) []string {
	const loopback = "127.0.0.1,localhost"
	at := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	switch {
	case at < 0:
		return append(env, name+"="+loopback)
	case strings.HasSuffix(env[at], "="):
		env[at] += loopback
	case !strings.Contains(env[at], "127.0.0.1") && !strings.HasSuffix(env[at], "=*"):
		env[at] += "," + loopback
	}
	return env
}

// PrintExports writes the settings as lines for a shell. Variables that must not be set are unset
// if the environment has them.
func PrintExports(w io.Writer, env []string, settings []Setting) error {
	for _, s := range settings {
		line := fmt.Sprintf("export %s=%s\n", s.Name, s.Value)
		if s.Value == "" {
			if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, s.Name+"=") }) {
				continue
			}
			line = fmt.Sprintf("unset %s\n", s.Name)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}
