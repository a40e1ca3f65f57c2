package sim

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"

	"berth/shared/sim/ec2"
	"berth/shared/sim/protocol"
	"berth/shared/wire/transport"
)

// maxRequest is how large a request of [AWS.ServeProtocols] may be.
const maxRequest = 1 << 20

// ServeProtocols answers the protocols of Auto Scaling, EC2 (launch templates, instances), Elastic
// Load Balancing (both versions), Cloud Map, CloudWatch (metrics, alarms), IAM (roles, instance
// profiles) and Systems Manager (images) and Service Quotas, with the operations that Berth and the tools that set up
// its machines use. It passes all other requests to next. It refuses operations and parameters that
// it does not simulate, and names them.
//
// Requests must be for a name of this machine and have a signature, which is not checked: a web
// page can send neither.
func (a *AWS) ServeProtocols(next http.Handler) http.Handler {
	compute := a.Templates.QueryService()
	maps.Copy(compute.Actions, ec2.HostActions(a.kernel, hosts{a}))
	identity := a.Profiles.QueryService()
	maps.Copy(identity.Actions, a.Roles.Actions())
	services := map[string]protocol.QueryService{
		"2015-12-01": a.TargetGroups.QueryService(), "2012-06-01": a.Classic.QueryService(),
		"2011-01-01": a.Groups.QueryService(), "2016-11-15": compute,
		"2010-05-08": identity,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Cloud Map and plain CloudWatch name the operation in a header, Smithy's RPC in the path,
		// the Query protocol in the form.
		target, discovery := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "Route53AutoNaming_v20170314.")
		alarm, alarms := strings.CutPrefix(r.URL.Path, "/service/GraniteServiceVersion20100801/operation/")
		metrics, plain := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "GraniteServiceVersion20100801.")
		quota, quotas := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "ServiceQuotasV20190624.")
		parameter, parameters := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSSM.")
		form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
		if r.Method != http.MethodPost || !discovery && !alarms && !plain && !parameters && !quotas && !form {
			next.ServeHTTP(w, r)
			return
		}
		if !transport.IsLoopback(r.Host) || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") {
			http.Error(w, "only signed calls from this machine are answered", http.StatusForbidden)
			return
		}
		body, err := readRequestBody(w, r)
		switch {
		case err != nil:
			http.Error(w, "the request cannot be read, or is too large", http.StatusRequestEntityTooLarge)
		case discovery:
			a.Registries.ServeJSON(w, target, body)
		case alarms:
			a.CloudWatch.ServeOperation(w, protocol.CBOR, alarm, body)
		case plain:
			a.CloudWatch.ServeOperation(w, protocol.JSON, metrics, body)
		case parameters:
			a.Templates.ServeParameters(w, parameter, body)
		case quotas:
			a.Quotas.ServeJSON(w, quota, body)
		default:
			protocol.ServeQuery(r.Context(), services, w, body)
		}
	})
}

// readRequestBody reads a request. The SDK compresses those with many datapoints.
func readRequestBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
		return body, err
	}
	plain, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(plain, maxRequest))
}
