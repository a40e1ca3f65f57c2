package wire

import (
	"encoding/json"
	"errors"
	"net/http"

	"berth/shared/cluster"
	"berth/shared/wire/stsapi"
	"berth/shared/wire/transport"
)

// WriteRefusal answers a request that no operation has seen with an error, in the form of the
// protocol that the request speaks: ECS's JSON, EKS's REST, or the Query protocol of forms. AWS
// answers a wrong signature with status 400 in the first, and with 403 in the others.
func WriteRefusal(w http.ResponseWriter, r *http.Request, err error) {
	if stsapi.IsForm(r) {
		stsapi.WriteError(w, err)
		return
	}
	e := &cluster.Error{Code: cluster.CodeServer, Message: "The request could not be answered."}
	errors.As(err, &e)
	status := refusalStatus(e.Code)
	if r.Header.Get("X-Amz-Target") != "" || r.URL.Path == "/" {
		if isSignatureCode(e.Code) {
			status = http.StatusBadRequest
		}
		answer, _ := json.Marshal(map[string]string{"__type": string(e.Code), "message": e.Message})
		transport.WriteAnswer(w, "application/x-amz-json-1.1", status, answer)
		return
	}
	w.Header().Set("X-Amzn-ErrorType", string(e.Code))
	answer, _ := json.Marshal(map[string]string{"code": string(e.Code), "message": e.Message}) // strings cannot fail
	transport.WriteAnswer(w, "application/json", status, answer)
}

func isSignatureCode(code cluster.Code) bool {
	return code == cluster.CodeMissingToken || code == cluster.CodeInvalidSignature || code == cluster.CodeUnknownKey
}

// refusalStatus returns the HTTP status of an error in a REST protocol.
func refusalStatus(code cluster.Code) int {
	switch {
	case isSignatureCode(code), code == cluster.CodeAccessDenied:
		return http.StatusForbidden
	case code == cluster.CodeRequestEntityTooBig:
		return http.StatusRequestEntityTooLarge
	case code == cluster.CodeThrottling:
		return http.StatusTooManyRequests
	case code == CodeUnavailable:
		return http.StatusServiceUnavailable
	case code == cluster.CodeServer:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// CodeUnavailable is the error of a request that did not reach the API. Clients may repeat it, as
// with AWS.
const CodeUnavailable cluster.Code = "ServiceUnavailableException"
