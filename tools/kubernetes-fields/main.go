// Command kubernetes-fields prints the fields of Kubernetes' objects as JSON: every kind that wharfinger stores, and
// every type below it, as the Go structs of k8s.io/api name them in their json tags, with the type of each value. It
// also prints which kinds each API group of Kubernetes has.
//
// The result is src/wharfinger/objects/documents/kubernetes_fields.json. `make kubernetes-fields` writes it anew. For another
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

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const module = "k8s.io/api"

// versions registers the API versions whose fields are listed.
var versions = runtime.NewSchemeBuilder(
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, schedulingv1.AddToScheme,
	schedulingv1alpha2.AddToScheme, storagev1.AddToScheme, nodev1.AddToScheme, networkingv1.AddToScheme,
	autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme,
)

// groups registers all API groups of Kubernetes, each with the versions that have all of its kinds.
var groups = runtime.NewSchemeBuilder(
	versions.AddToScheme, admissionregistrationv1.AddToScheme, admissionregistrationv1alpha1.AddToScheme,
	apiserverinternalv1alpha1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	certificatesv1.AddToScheme, certificatesv1beta1.AddToScheme, coordinationv1.AddToScheme,
	coordinationv1beta1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme, flowcontrolv1.AddToScheme,
	resourcev1alpha3.AddToScheme, storagemigrationv1beta1.AddToScheme,
)

// elsewhere are the kinds of Kubernetes whose structs are in other modules.
var elsewhere = map[string][]string{
	"apiextensions.k8s.io":   {"CustomResourceDefinition"},
	"apiregistration.k8s.io": {"APIService"},
}

// kinds are those of wharfinger.objects.documents.kinds; a test compares them.
var kinds = []string{
	"Pod", "Node", "Namespace", "Service", "ConfigMap", "Secret", "ServiceAccount", "ReplicationController",
	"PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange", "ReplicaSet", "Deployment", "StatefulSet",
	"DaemonSet", "Job", "CronJob", "PodDisruptionBudget", "PriorityClass", "PodGroup", "DeviceClass", "StorageClass", "CSINode",
	"CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "RuntimeClass", "Ingress", "NetworkPolicy",
	"HorizontalPodAutoscaler", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// described is a struct: the type of each field. "[]" stands before the type of a list's entries, "{}" before the type
// of the values of a map with free keys.
type described map[string]string

type catalog struct {
	Origin map[string]string
	Groups map[string][]string // API group -> its kinds
	Kinds  map[string]string   // API version and kind -> type
	Types  map[string]described
}

// decodesItself has the types that decode themselves, and what they take.
var decodesItself = map[string]string{
	"Quantity": "quantity", "IntOrString": "int-or-string", "Time": "time", "MicroTime": "time", "Duration": "string",
	"RawExtension": "any", "FieldsV1": "any",
}

func main() {
	found := catalog{Origin: origin(), Groups: maps.Clone(elsewhere), Kinds: map[string]string{}, Types: map[string]described{}}
	for kind, structure := range known(versions) {
		if slices.Contains(kinds, kind.Kind) {
			found.Kinds[kind.GroupVersion().String()+" "+kind.Kind] = found.add(structure)
		}
	}
	for kind, structure := range known(groups) {
		if _, named := structure.FieldByName("ObjectMeta"); named && !slices.Contains(found.Groups[kind.Group], kind.Kind) {
			found.Groups[kind.Group] = append(found.Groups[kind.Group], kind.Kind)
		}
	}
	for _, members := range found.Groups {
		slices.Sort(members)
	}
	fmt.Printf("{\"origin\": %s,\n\"groups\": {\n%s},\n\"kinds\": {\n%s},\n\"types\": {\n%s}}\n",
		text(found.Origin), lines(found.Groups), lines(found.Kinds), lines(found.Types))
}

// known are the kinds that a builder registers in versions that are served.
func known(builder runtime.SchemeBuilder) map[schema.GroupVersionKind]reflect.Type {
	scheme := runtime.NewScheme()
	if err := builder.AddToScheme(scheme); err != nil {
		fail(err)
	}
	found := scheme.AllKnownTypes()
	maps.DeleteFunc(found, func(kind schema.GroupVersionKind, _ reflect.Type) bool {
		return kind.Version == runtime.APIVersionInternal
	})
	return found
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

// add describes a type and all below it; the answer is its name.
func (c *catalog) add(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return c.add(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + c.add(t.Elem())
	case reflect.Map:
		if structure(t.Elem()) {
			fail(fmt.Errorf("%v is a map of structs: wharfinger.objects.documents.strict cannot walk it", t))
		}
		return "{}" + c.add(t.Elem())
	case reflect.Struct:
		if structure(t) {
			return c.addStruct(t)
		}
		if decodesItself[t.Name()] == "" {
			fail(fmt.Errorf("%v decodes itself: name what it takes", t))
		}
		return decodesItself[t.Name()]
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return t.Kind().String()
	}
	fail(fmt.Errorf("%v is of no known sort", t))
	return ""
}

func (c *catalog) addStruct(t reflect.Type) string {
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
