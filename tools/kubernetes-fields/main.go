// Command kubernetes-fields prints the fields of Kubernetes' objects as JSON: every kind that wharfinger stores, and
// every type below it, as the Go structs of k8s.io/api name them in their json tags.
//
// The result is src/wharfinger/manifests/kubernetes_fields.json. `make kubernetes-fields` writes it anew. For another
// Kubernetes release, change the versions in go.mod first: go get k8s.io/api@v0.37.0 k8s.io/apimachinery@v0.37.0
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const module = "k8s.io/api"

// versions registers the API versions whose fields are listed.
var versions = runtime.NewSchemeBuilder(
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, schedulingv1.AddToScheme,
	schedulingv1alpha2.AddToScheme, storagev1.AddToScheme, nodev1.AddToScheme, networkingv1.AddToScheme,
	autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, rbacv1.AddToScheme,
)

// kinds are those of wharfinger.manifests.kinds; a test compares them.
var kinds = []string{
	"Pod", "Node", "Namespace", "Service", "ConfigMap", "Secret", "ServiceAccount", "ReplicationController",
	"PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange", "ReplicaSet", "Deployment", "StatefulSet",
	"DaemonSet", "Job", "CronJob", "PodDisruptionBudget", "PriorityClass", "PodGroup", "StorageClass", "CSINode",
	"CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "RuntimeClass", "Ingress", "NetworkPolicy",
	"HorizontalPodAutoscaler", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// described is a struct: the type of each field, empty where nothing below it is a field of Kubernetes.
type described map[string]string

type catalog struct {
	Origin map[string]string
	Kinds  map[string]string // API version and kind -> type
	Types  map[string]described
}

func main() {
	found := catalog{Origin: origin(), Kinds: map[string]string{}, Types: map[string]described{}}
	scheme := runtime.NewScheme()
	if err := versions.AddToScheme(scheme); err != nil {
		fail(err)
	}
	for kind, structure := range scheme.AllKnownTypes() {
		if slices.Contains(kinds, kind.Kind) && kind.Version != runtime.APIVersionInternal {
			found.Kinds[kind.GroupVersion().String()+" "+kind.Kind] = found.add(structure)
		}
	}
	fmt.Printf("{\"origin\": %s,\n\"kinds\": {\n%s},\n\"types\": {\n%s}}\n",
		text(found.Origin), lines(found.Kinds), lines(found.Types))
}

// lines is a JSON object's content, one line an entry, so that a new release shows as a short difference.
func lines[V any](entries map[string]V) string {
	var written []string
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		written = append(written, text(name)+": "+text(entries[name]))
	}
	return strings.Join(written, ",\n") + "\n"
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		fail(err)
	}
	return string(encoded)
}

// add describes a type and all below it; the answer is its name, empty for what has no fields of its own: scalars,
// maps with free keys, and types that decode themselves, such as quantities and times.
func (c *catalog) add(t reflect.Type) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Map && structure(t.Elem()) {
		fail(fmt.Errorf("%v is a map of structs: wharfinger.manifests.strict cannot walk it", t))
	}
	if !structure(t) {
		return ""
	}
	name := t.PkgPath()[strings.LastIndex(t.PkgPath()[:strings.LastIndex(t.PkgPath(), "/")], "/")+1:] + "." + t.Name()
	if _, known := c.Types[name]; !known {
		c.Types[name] = described{}
		c.addFields(c.Types[name], t)
	}
	return name
}

func (c *catalog) addFields(into described, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !field.IsExported():
		case tag == "" && (field.Anonymous || strings.Contains(options, "inline")):
			c.addFields(into, field.Type)
		case tag == "":
			fail(fmt.Errorf("%v.%s has no json name", t, field.Name))
		default:
			into[tag] = c.add(field.Type)
		}
	}
}

func structure(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(unmarshaler)
}

// origin names the module that the structs come from, with its checksum as in go.sum.
func origin() map[string]string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return map[string]string{"module": module, "version": dependency.Version, "sum": dependency.Sum}
		}
	}
	fail(fmt.Errorf("%s is not among the modules of this build", module))
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubernetes-fields:", err)
	os.Exit(1)
}
