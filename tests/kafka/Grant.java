import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Gives users of a test broker what they may do, or takes it away, all in one go.
 *
 * Takes the broker's address, and then any number of
 * "scram USER PASSWORD" and "ALLOW|DENY|UNDENY USER OPERATION RESOURCE-TYPE NAME".
 */
class Grant {
    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            List<AclBinding> made = new ArrayList<>();
            for (int at = 1; at < args.length; at++) {
                String[] words = args[at].split(" ");
                if (words[0].equals("scram")) {
                    ScramCredentialInfo info =
                        new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
                    admin.alterUserScramCredentials(List.of(
                        new UserScramCredentialUpsertion(words[1], info, words[2]))).all().get();
                } else if (words[0].equals("UNDENY")) {
                    admin.deleteAcls(List.of(binding("DENY", words).toFilter())).all().get();
                } else {
                    made.add(binding(words[0], words));
                }
            }
            admin.createAcls(made).all().get();
        }
    }

    private static AclBinding binding(String permission, String[] words) {
        ResourceType type = ResourceType.valueOf(words[3]);
        return new AclBinding(
            new ResourcePattern(type, words[4], PatternType.LITERAL),
            new AccessControlEntry("User:" + words[1], "*",
                AclOperation.valueOf(words[2]), AclPermissionType.valueOf(permission)));
    }
}
