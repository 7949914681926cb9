BEGIN TRANSACTION;
CREATE TABLE completions (
    key TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    label_logprobs TEXT,
    finish_reason TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    choice TEXT,
    model TEXT,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
INSERT INTO "completions" VALUES('f923cb6fa12c622dc015f1bbbd36f19505662f34a55be2a456cf532903cbdbfa','Tie
### Reason: so
### Reference: none',NULL,'stop',125,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('426d66a07d3e097cd682cddccedc3908001225a8a9b9ef3485bbfcf7a5b9cb47','2
### Reason: so
### Reference: none',NULL,'stop',125,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d64a908bfe2a0233c6bd266b11c5ee69cd191f10d28d566bd869a003e4bea60c','2
### Reason: so
### Reference: none',NULL,'stop',65,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d103b7b00b0dbddbb374aa41111e21ff29612009fb9d757d4a4c10940f47836e','2
### Reason: so
### Reference: none',NULL,'stop',65,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('be66d2a40b45c6218db413e749f3910f1c229ec190e7c994eb8c5ce7e825026f','2
### Reason: so
### Reference: none',NULL,'stop',68,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e3c4b5f582f2a92b1a482cbaa373e4772f239e1258d8a411fa70cf77ac6fc33f','Tie
### Reason: so
### Reference: none',NULL,'stop',68,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c1c8c8277690c56af0f5f76702f129108030fac597ab2e5a43142c1a38e9bacd','2
### Reason: so
### Reference: none',NULL,'stop',130,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('08e3c6e875b6a6ba7f531062e85ffaaebc7f02263fb0ed85fd5c4831cba0f03b','1
### Reason: so
### Reference: none',NULL,'stop',130,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4a2e1c94ecb2bd30105d614c4f62854f1d4c1a4c958958ca43cb1ce0c496f427','Tie
### Reason: so
### Reference: none',NULL,'stop',64,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9dd2031cd894b0922ea475f07ff1bf7d0190f2fa05e6063d8db7addfc06589fa','Both are answers.
So, the final decision is Response 2',NULL,'stop',76,14,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('545b849566e5db27a5798b37dd4d76f857c769dd229f75de929be8c4bca53586','Both are answers.
So, the final decision is Tie',NULL,'stop',76,12,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('741957baf7385961f62f30f355a487aa43f577b859bacea3b811ca113a78f32a','2
### Reason: so
### Reference: none',NULL,'stop',62,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1b38424c00cef23ac9ea9c87efe3fbf6347929a71288f48f409514b56c50d109','Tie
### Reason: so
### Reference: none',NULL,'stop',62,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f5cb6d1a2dc967adf9d8d51be59db4087142d1a557a75ee0a53f64300c5ac0bc','',NULL,'stop',66,1,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1d6be4013924c9c140fb04356541cb7870474138fd86b43b3c8565ce30e873f3','',NULL,'stop',66,1,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('02cb0b2811e15169c4a11f4053a48f1614054c80706b6f62152f72f408cdb3b8','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',65,30,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7c5a78b774996a5bedba309572bc89fa5dcc548b7b7adafbd0f36b9bdf024ab4','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',65,30,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a458aa068d7d94c401fbd58f373ad246bc2ab3b8eb5c57c0d6b4a041c983244e','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',66,30,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2d704ebfcef632b1df8e08c3fa442bde3a4c4b1b1b50b29f6f208c3e570a13a6','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',66,30,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('539539f0d5bc98fd6da097d2e7357a671e133326f074c92ad74c009d94af99ad','Let me look at both of them. The first',NULL,'length',69,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('df2fcc4cecb9f09d01a88b8c7b239d56f8587d6ec221db1910350276c1021681','Let me look at both of them. The first',NULL,'length',69,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0d0b1da62a6edeb15aacb4232406acd1bdfa963848677e795f71332f16123c9e','2
### Reason: so
### Reference: none � ',NULL,'stop',68,15,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('004ad62d07521ec32b3ed01ae64ca2cd2d5389a63d69a04e96097c2169ae3a8b','2
### Reason: so
### Reference: none � ',NULL,'stop',68,15,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('21236064ad16c8a8a4a8ba2d34c07c3e9ee318e939004a84ae9e8e978e9de629','1
### Reason: so
### Reference: none',NULL,'stop',65,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('915349793c917f25ecec62cea4bb140b1e184c9591c5a109589120b192001ebe','1
### Reason: so
### Reference: none',NULL,'stop',65,10,NULL,'WeOpenML/PandaLM-7B-v1','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('814ff6d41dc703add385ae3d458c83665582cc595eccc889b929c899b8e64c31','Both are answers.
So, the final decision is Response 1',NULL,'stop',240,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f52f0f1ccd859eb232754b0e230e60b0a3175d9b4c46f501ae0d4e5430c77d40','Both are answers.
So, the final decision is Response 1',NULL,'stop',240,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5b6d91be361b9fd580f0b77fd85922787c3da001259867e2b94104c1d5cc70fc','Both are answers.
So, the final decision is Tie',NULL,'stop',180,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a26520705ec78996ec0cf59f9b56417480302db43b5e3ac020b3ddb1f9f602c7','Both are answers.
So, the final decision is Response 1',NULL,'stop',180,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('58405a8732f61996899eddf5a78f4bd5714714f3f74a956eaecb0800f6399dd5','Both are answers.
So, the final decision is Tie',NULL,'stop',183,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bcc192e44d8d6f2cf7f73aa43c1a867ee27ef07cff341776adee327a73393807','Both are answers.
So, the final decision is Response 2',NULL,'stop',183,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('df99107286dc02f8a86a87c27169ac12e645c6fdb938592c39782ce3ed3c05d6','Both are answers.
So, the final decision is Tie',NULL,'stop',245,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('60f59bf44d4c82c7761fd04657411ce4aae8d9160590f1bfd2cac8fb268cd242','Both are answers.
So, the final decision is Response 2',NULL,'stop',245,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('286a46d86e842c6c52c33058e773f28525a58f6080a6fd4f544b86ce19852b71','Both are answers.
So, the final decision is Response 2',NULL,'stop',179,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('364ccafe2b2cdad298de26032c6e7ff00f989ae433a69e67157de9dc5086b55b','Both are answers.
So, the final decision is Response 2',NULL,'stop',193,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('134dbb8b61ca25b9da7187f173d5d9a9aaf1e7866e96023667e8b41bca1c12d9','Both are answers.
So, the final decision is Response 1',NULL,'stop',193,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('170b8eb727eb6ce2d898b6e143c251d2b2757d8901e0353b244571be7ff7c603','Both are answers.
So, the final decision is Response 2',NULL,'stop',177,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('10a37cbbf9d70920550ea74dca99bccf30b31e60604a50a1323a45fbf774657f','Both are answers.
So, the final decision is Response 1',NULL,'stop',177,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('64aa1486e250603639676d5cc48ae1dcd27040a01db88b6d367351643f2eef74','',NULL,'stop',181,1,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2f549f813963fc9814d22e54ee314f63f25de9d8d6394dbc420cb53ab2f30746','',NULL,'stop',181,1,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b2c3f9605519d8f024cae9c43ed76a9e80fac06c436ecc1de027b22c5698dbe0','It could be that Both are answers.
So, the final decision is Response 1, or else that Both are answers.
So, the final decision is Response 2; who can say.',NULL,'stop',180,39,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('30c3c5d5e5182ef35d936fc28760e529f536ec7dd239160939c3b32415ada2ab','It could be that Both are answers.
So, the final decision is Response 1, or else that Both are answers.
So, the final decision is Response 2; who can say.',NULL,'stop',180,39,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3b63a8e37c447f693a7d5d5d3a49ca1e60f3a8ffb8eb1e41766ebdd20514bdf3','The first answer says "So, the final decision is Response 1", it does not decide.
Both are answers.
So, the final decision is Response 2',NULL,'stop',180,35,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bbd9dbee5feb658b85be5d4af88eb9f58e1fe63358a912a24a44c6c60035b564','The first answer says "So, the final decision is Response 1", it does not decide.
Both are answers.
So, the final decision is Response 2',NULL,'stop',180,35,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1b5ca90175fdef866f5e3d6caf255d8b48c9afcd7c0b491f66b20278d2a941d7','Let me look at both of them. The first',NULL,'length',184,10,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5f25b35492d4761f67843c444c6652dbe974cf6a998096ca335b755188707b9f','Let me look at both of them. The first',NULL,'length',184,10,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bd0e3a79751652db0fc6457e4d6f21f64bbc367e78e9cf3063baf1940b100a34','Both are answers.
So, the final decision is Tie � ',NULL,'stop',183,18,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1259915b1bd3656c44f03a291c024a26d46658a03d2b516d57520b3f7d925a7d','Both are answers.
So, the final decision is Tie � ',NULL,'stop',183,18,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('201001dea05403a94818357be6dbdfe9a3ec0d4e1ed4cc98dab31fd376b30545','Both are answers.
So, the final decision is Response 2',NULL,'stop',180,14,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5bbb996b73cde481b1d1d4c87ae53608cb252518d19c6b063dfebb9aa46952f2','Both are answers.
So, the final decision is Tie',NULL,'stop',180,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c6bb6ef1f299d5b6b9b1c4fc97ff08da5f30de7649065a27e49ccd0cbd4a346d','Both are answers.
So, the final decision is Response 1',NULL,'stop',240,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d673e133b71d4fca11ac80083c4087bdc85d74c208c488fa23fc05cfdf8810a6','Both are answers.
So, the final decision is Response 1',NULL,'stop',240,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b0b0566d0f982234d7a0d600c5fc8ff4f2830d317747a1df0ae1c9b182a2865b','Both are answers.
So, the final decision is Tie',NULL,'stop',180,12,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('54aaa004fb74989af809645a60a63ede0cd807dc7fd24896b6a3eeaa71896cc6','Both are answers.
So, the final decision is Response 1',NULL,'stop',180,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b7d6e519f8f8b6c2ceff67e374c2a4477182fa0da40aa3b56690a5d86e6cbf31','Both are answers.
So, the final decision is Tie',NULL,'stop',183,12,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c1bc6f35f960bc254d6bc887dde053750bf3fb7db0f8434f5bc73b34cf56263c','Both are answers.
So, the final decision is Response 2',NULL,'stop',183,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ef28f1ed08874f2d92d974a2d7eecd4939a3b68d5964cc7dda7c1855c7db3587','Both are answers.
So, the final decision is Tie',NULL,'stop',245,12,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0b5ca8fae530abad673329ca0bf9f1e0649576a5a710286a0a33659682d65d1a','Both are answers.
So, the final decision is Response 2',NULL,'stop',245,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('772edb9e670d820e8133912b34660ba2f9fe96e373270ba8820afd28ad02a542','Both are answers.
So, the final decision is Response 2',NULL,'stop',179,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('040523cf59d375ca51431ea343930f083212b3c7b9de144a6fee365d059a773d','Both are answers.
So, the final decision is Response 2',NULL,'stop',193,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('16ed79ec811bffc103022a21807b1c29a7a70df85a8a5cbce09ed2fbde8497ec','Both are answers.
So, the final decision is Response 1',NULL,'stop',193,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('408fd2bec15e31984f665db679cdfc183eeae26e6b9530c38b50c9b3ac1e76f6','Both are answers.
So, the final decision is Response 2',NULL,'stop',177,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('098a72d76fadd9a2e43943aea437ec4a4e591bed21d12b86bc5e86f678969d40','Both are answers.
So, the final decision is Response 1',NULL,'stop',177,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ee3570f5a751d37de2f5562a0b9d3048961198f9e4549d80182f38ac1e06fc4c','',NULL,'stop',181,1,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('015fa5fefb82774f09ed74661f065db2aef7a6a5e5fb4a5cac724dc8dc5791cc','',NULL,'stop',181,1,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ea357f427fef5093af7d1658af2663eb083fe28b3baab6148d806b747e9fbedc','It could be that Both are answers.
So, the final decision is Response 1, or else that Both are answers.
So, the final decision is Response 2; who can say.',NULL,'stop',180,39,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3b57cfb3c8861635e7ac4b036d7f5e4a19d5281497ebe3b1680d8ba81a1ff671','It could be that Both are answers.
So, the final decision is Response 1, or else that Both are answers.
So, the final decision is Response 2; who can say.',NULL,'stop',180,39,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('83ba29c1b095e0e0f6aff2d5b22c3bca24a196a0ade374dc31173fb6e32be97a','The first answer says "So, the final decision is Response 1", it does not decide.
Both are answers.
So, the final decision is Response 2',NULL,'stop',180,35,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('83a4bc46c712fa3778e9aedac781395ab687abd2cacc658ea12fb9d5a4aff83b','The first answer says "So, the final decision is Response 1", it does not decide.
Both are answers.
So, the final decision is Response 2',NULL,'stop',180,35,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('36e1a403db71efe843e841536eb079313f15829cc785c0f5417985fe79451212','Let me look at both of them. The first',NULL,'length',184,10,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9d51eff07d44bcabb4c5bcd12605d43cb854bb14f33b8e052304c3ce324b621a','Let me look at both of them. The first',NULL,'length',184,10,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('05f29abb6da3052a4924792d49f140591d8804891a4da2038cf3a3f4f9702ac3','Both are answers.
So, the final decision is Tie � ',NULL,'stop',183,18,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b6783ca297567abbc4cdabfbccb4c37efd3549841d0fd804197c40e98bf347e5','Both are answers.
So, the final decision is Tie � ',NULL,'stop',183,18,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('981773c97941cee7272fbe957fc072524eea1ef11b6d43d3d00ba83ddd9e328c','Both are answers.
So, the final decision is Response 2',NULL,'stop',180,14,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('eaa16f1c424d548183d60f5f80b3492f4579c5f371773278ff8b175e542cc998','Both are answers.
So, the final decision is Tie',NULL,'stop',180,12,NULL,'GAIR/autoj-13b-GPTQ-4bits','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('094fba84a8df53d7acf62eba680a4da7a7f5dfeed4af384325e7a66b41addd39','It answers. Rating: [[10]]',NULL,'stop',142,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7879db58991cd0f0be728c80707cc003c36b2e522d7afa314e0a52867f53cce7','It answers. Rating: [[9]]',NULL,'stop',144,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5527009174de9c386cfa65fa0af632299a97eff7913ac3577724b932f7876934','It answers. Rating: [[7]]',NULL,'stop',99,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7b0be15af05ecb8bc05d469e297e89d1de03d8b84241fa83c514b0c7f9b35126','It answers. Rating: [[3]]',NULL,'stop',98,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('dd6035d9cbaf8e9532b47384e78d4f379f5998688a2980b4c185d50987ce6c6b','It answers. Rating: [[7]]',NULL,'stop',99,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('88212c4365952b71952f86e03542de4e6beb6446d8bea08ad17b1fcac925e018','It answers. Rating: [[4]]',NULL,'stop',102,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9b66fa34fe246da02d5396e02a581697d111d0c2916cd64b1243fdcffc0b3b1f','It answers. Rating: [[9]]',NULL,'stop',145,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b3dbaa654a343c0a5fc851e167ce10fc39abe0a1a7b0d6aa1671a8676e639276','It answers. Rating: [[1]]',NULL,'stop',147,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('78494ab18f96743f61f2f44805c1a7dee34c6607f9947fd87c00afda26f0450d','It answers. Rating: [[10]]',NULL,'stop',97,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('02e42746a38ea9fbb2cb22be8eae8b179b8ae960c0d5c9aeea471167e6851656','Both are answers.
So, the final decision is Tie',NULL,'stop',106,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e1b8a958806108f0b38a1b735bcb3aec33a34984f102cdfd831c65e2b584f306','It answers. Rating: [[4]]',NULL,'stop',103,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ded39dbef7373f037386c2caa34ebb13ce89ca6b4a30661417bbca5a193a966e','It answers. Rating: [[8]]',NULL,'stop',94,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e60b7cc4342f4dc3921f62419cfb2610dde3ee70145f89e43f5b2b0268f6baf3','It answers. Rating: [[1]]',NULL,'stop',97,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b0eacc9a6b1f36c40ce9fc0e092c3e3f386be52502fb6895ae9ba168b84ee0e4','',NULL,'stop',98,1,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ec282df5f2b37aebcaf51c357c11fa6783af185b67b34a92bcbd6ceef376585c','',NULL,'stop',99,1,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('df6324a1d22762bf9f1b7529feba0f3f4d4e7d4152b97d56fdfe2b562cf630af','It could be that It answers. Rating: [[6]], or else that It answers. Rating: [[6]]; who can say.',NULL,'stop',97,25,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('999358527e05516e0881f1d10eb3ee3894eb1f18f44712672fd9f039fbe1a3ef','It could be that It answers. Rating: [[6]], or else that It answers. Rating: [[6]]; who can say.',NULL,'stop',98,25,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c34bfd8fa729e341a7f318e82a9e7a0eb591e70abf3619cae95b1085096b2229','The first answer says "So, the final decision is Response 1", it does not decide.
It answers. Rating: [[5]]',NULL,'stop',97,27,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4058dec80bcdb2c66217e27c11efcbe257e250566e5f9d7dd65fa219b034b291','The first answer says "So, the final decision is Response 1", it does not decide.
It answers. Rating: [[3]]',NULL,'stop',98,27,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e3475e6b2f5324801576a40bfab4c64c1c4eec82357422116965898772545f80','Let me look at both of them. The first',NULL,'length',100,10,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5be8f5719cca8017d8a032a227d9ff8cf3ceeaf36773f8c7a44c51474b7e37e5','Let me look at both of them. The first',NULL,'length',101,10,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e293e29d96d81083fa2357ee6ee18515f51a9e4170255d0c8ca867e5e2e9beee','It answers. Rating: [[8]] � ',NULL,'stop',99,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('60d808346834d8d2f520ea0511af859813865bc935075eb136488b38f6af2055','It answers. Rating: [[2]] � ',NULL,'stop',100,12,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4099f5b7161501dc947633f0b17a65aaacf72b6960e0fe842edf94c3a27d0eb2','It answers. Rating: [[6]]',NULL,'stop',97,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('87c75842896a013eb4fee2e1eff1e12264935ba497c09e1d83eeb4b568c12b86','It answers. Rating: [[4]]',NULL,'stop',98,7,NULL,'GAIR/autoj-13b','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8784d3c11d5b69ef0f4e7c70fd5088e70372341cbaad718fab5d1a801cf2af94','1
### Reason: so
### Reference: none','{"1": -0.38359374999999996, "2": -1.01640625}','stop',215,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('58630c3a03db6996faf8c46a75bedd1627cb70389cd56ca96d71dbf7295bae35','Tie
### Reason: so
### Reference: none','{"1": -1.42265625, "2": 0.022656250000000044}','stop',215,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4c046eef263a7dcba25eac604421e8d4195bad9a60b47b1cad181e94677211ac','2
### Reason: so
### Reference: none','{"1": -0.96171875, "2": -0.43828124999999996}','stop',154,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5a9f3832b45648a36169a8956fe793e462ee2e395800e3de12231185c7cd75b1','2
### Reason: so
### Reference: none','{"1": -1.40703125, "2": 0.007031250000000044}','stop',154,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e78bffd99555403be6e5dbd5119b14388a6f2050870022a461c7558c36bc72ab','1
### Reason: so
### Reference: none','{"1": -0.96953125, "2": -0.43046874999999996}','stop',158,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b2c568af07dc0ae8c44daf4a87ca4a40ba5710339a2480c6d5858b0f1954fd72','2
### Reason: so
### Reference: none','{"1": -0.32890624999999996, "2": -1.07109375}','stop',158,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('dd17062ff87d42ff3bd8b01497c9cd079e948d03617a28e678b2bb5e8a88cc1e','2
### Reason: so
### Reference: none','{"1": 0.28046875000000004, "2": -1.68046875}','stop',220,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c2378f92469303baff5d55f9cb829fddca7285d79db13c52368be1dceba62ade','2
### Reason: so
### Reference: none','{"1": -0.14140624999999996, "2": -1.25859375}','stop',220,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('97304b926f17c345f0b9f57a232c79ffc3d3aef744e9eede4182d5e3cec78693','Tie
### Reason: so
### Reference: none','{"1": -1.51640625, "2": 0.11640625000000004}','stop',154,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0d29cf74ff1eaeb29326ee44da13f315061a267ae7706e66a7e49493b35a3432','Both are answers.
So, the final decision is Response 2','{"1": -0.42265624999999996, "2": -0.97734375}','stop',168,14,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9b8dc997bb29dd87b2f9a1197f9a182d9b8ea129a4e5c3fe69f80aaffd128393','Both are answers.
So, the final decision is Response 1','{"1": -1.27421875, "2": -0.12578124999999996}','stop',168,14,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b53b162a7390904d2ad5f8bd41ecebaecc9404e1c3bc3abda61fec27ae732cf6','2
### Reason: so
### Reference: none','{"1": 0.25703125000000004, "2": -1.65703125}','stop',151,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('083d76869f49733e42359ad84b6d3b525626739a2451998d21bb714fb403a3b9','2
### Reason: so
### Reference: none','{"1": -1.36015625, "2": -0.039843749999999956}','stop',151,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('54b82c53a6b9d3059d8db50ae0a8588e8b1fb333475b96ff65c14dce84098cf5','','{"1": -1.03984375, "2": -0.36015624999999996}','stop',156,1,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d40aecd315865bd9a32cc5afa6f01e2645eba78c55e84a181f66be3114c96d05','','{"1": -0.62578125, "2": -0.77421875}','stop',156,1,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('39c72dc1dfdd1a1970cf8152b1246251a0a1bb22816c829288e8bdfb51da7045','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.','{"1": 0.22578125000000004, "2": -1.62578125}','stop',154,30,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7b3034bb5eba6d1d1a728e1d5867f7071a0c4a8a5dd7d57aef4804539553a4e5','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.','{"1": -0.024218749999999956, "2": -1.37578125}','stop',154,30,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a339177c391d3752beca6a6654b2f71684e79e8bbacfcb175b9ff7526c2a634b','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none','{"1": -0.74296875, "2": -0.65703125}','stop',155,30,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d19ec049019a1afde49617f7bce06c4885386da2e91992e9e7b39527cf203984','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none','{"1": -0.54765625, "2": -0.85234375}','stop',155,30,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('99379b2dee87c9698d3f38eae3f54ee6e51cb5bb3d7ab0b5d61398d635d23910','Let me look at both of them. The first','{"1": -1.51640625, "2": 0.11640625000000004}','length',159,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('99185c062d2bb46ce699883d685b341f35ad4ff3c2ef572a027a941010c744bd','Let me look at both of them. The first','{"1": -1.15703125, "2": -0.24296874999999996}','length',159,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2c4c6ec139f5fe704b8697a3aea171dac1558bd3d8919d9429c186b8b0522f43','1
### Reason: so
### Reference: none � ','{"1": -1.48515625, "2": 0.08515625000000004}','stop',157,15,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a9759fecbb67a1315b136908598ac258c695fa21ca5e488bf1640a874a55db28','Tie
### Reason: so
### Reference: none � ','{"1": -0.76640625, "2": -0.63359375}','stop',157,15,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('b69704d84a7b709c27ec2e8f99fe21fabb779ed61c14632cc31e66d5bb442e34','1
### Reason: so
### Reference: none','{}','stop',154,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('986680c536a259a07330d8dac8a2a1cb1dcc37f0d80dc2279f74629bcfe18d6f','2
### Reason: so
### Reference: none','{}','stop',154,10,NULL,'smollm2-135m-instruct','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('66f512444325c8d411a5129138826f8ade439130d0db0ee500a9f0ac61068f19','[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 1}]',NULL,'stop',328,17,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 1}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 1}]", "total_tokens": 345}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d75aa9741d80d80b284215afcd5d8a4bdf55ed41a33064d0d2d1428f1d110703','[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}]',NULL,'stop',267,17,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}]", "total_tokens": 284}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('179c7cf70f5f1f4678c649ab23162028308aa2115a18d8ffa4272dc066246152','[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]',NULL,'stop',271,17,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]", "total_tokens": 288}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5915f872c6caa056196934eb3eb35efb2991ab4ba5b1005aebf5ba3aa425ce69','[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}]',NULL,'stop',333,17,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}]", "total_tokens": 350}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7095a55ff9c20cdcf381df53b2a439f1d6a0701db9b49e5b7fc26613f2740d7d','Both are answers.
So, the final decision is Response 2',NULL,'stop',281,14,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "Both are answers.\nSo, the final decision is Response 2", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "Both are answers.\nSo, the final decision is Response 2", "total_tokens": 295}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9d06bb4220373d914b36b18beea33a7bee8b81fd528af0b5a048240313eac84c','[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]',NULL,'stop',264,17,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]", "total_tokens": 281}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5ea7a0ca9cc311994f07278089103e4462adc5bf1dc9e04232d854f1521129ff','',NULL,'stop',269,1,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": " ", "total_tokens": 270}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('03bd862d357a97c8372cd654bb35d607c119b7aab1a2196899253e0c561496c6','It could be that [{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}], or else that [{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]; who can say.',NULL,'stop',267,45,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "It could be that [{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}], or else that [{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]; who can say.", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "It could be that [{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}], or else that [{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]; who can say.", "total_tokens": 312}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0ded069487d0005ed92f984b85006070fdaa0cf30cced06d69d0539b4595ebcd','The first answer says "So, the final decision is Response 1", it does not decide.
[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]',NULL,'stop',268,38,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "The first answer says \"So, the final decision is Response 1\", it does not decide.\n[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "The first answer says \"So, the final decision is Response 1\", it does not decide.\n[{''model'': ''model_1'', ''rank'': 2}, {''model'': ''model_2'', ''rank'': 1}]", "total_tokens": 306}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1ba104e70d70b928be31923758f91d4077cfa9b23efb2b81c059188849487ddf','[{''model'': ''model_1'', ''rank'': 2},',NULL,'length',272,9,'{"finish_reason": "length", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 2},", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 2},", "total_tokens": 281}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('674f0068f05a702efdd1a431b4ed3d36c4cc380bd6dc29569ea3e48fcd5ca0c7','[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}] � ',NULL,'stop',270,22,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}] \ufffd \u0000 \u202eright to left \ud83d\ude00", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 2}] \ufffd \u0000 \u202eright to left \ud83d\ude00", "total_tokens": 292}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('371ab27c80c3b2feaa58b25379bfae6d9da3a78089db6727de02458e8684e395','[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 1}]',NULL,'stop',267,17,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 1}]", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "[{''model'': ''model_1'', ''rank'': 1}, {''model'': ''model_2'', ''rank'': 1}]", "total_tokens": 284}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8da3df8d41b79b37778d0204598bfb9fedbbd2006a6b827704a09156ff8663b9','2
### Reason: so
### Reference: none',NULL,'stop',328,10,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": 0.21015625000000004, "top_logprobs": [{"token": "1", "bytes": [49], "logprob": 0.21015625000000004}, {"token": "m", "bytes": [109], "logprob": -0.78984375}, {"token": "2", "bytes": [50], "logprob": -1.61015625}, {"token": "A", "bytes": [65], "logprob": -1.7898437500000002}, {"token": "M", "bytes": [77], "logprob": -2.61015625}, {"token": "B", "bytes": [66], "logprob": -3.61015625}]}], "refusal": null}, "message": {"content": "2\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "2\n### Reason: so\n### Reference: none", "total_tokens": 338}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('15fc3fc803143322e2769368bf760da747e7a2c4262461542130372009dcff6e','Tie
### Reason: so
### Reference: none',NULL,'stop',268,10,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": -0.22734374999999996, "top_logprobs": [{"token": "1", "bytes": [49], "logprob": -0.22734374999999996}, {"token": "2", "bytes": [50], "logprob": -1.17265625}, {"token": "m", "bytes": [109], "logprob": -1.22734375}, {"token": "M", "bytes": [77], "logprob": -2.17265625}, {"token": "A", "bytes": [65], "logprob": -2.22734375}, {"token": "B", "bytes": [66], "logprob": -3.17265625}]}], "refusal": null}, "message": {"content": "Tie\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "Tie\n### Reason: so\n### Reference: none", "total_tokens": 278}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c823b6c9cc8ba9bb9f7bfd46d283f8a423c032d27ea6d655bc68de2f71a922bb','1
### Reason: so
### Reference: none',NULL,'stop',271,10,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "2", "bytes": [50], "logprob": -0.31328124999999996, "top_logprobs": [{"token": "2", "bytes": [50], "logprob": -0.31328124999999996}, {"token": "1", "bytes": [49], "logprob": -1.08671875}, {"token": "M", "bytes": [77], "logprob": -1.31328125}, {"token": "m", "bytes": [109], "logprob": -2.08671875}, {"token": "B", "bytes": [66], "logprob": -2.31328125}, {"token": "A", "bytes": [65], "logprob": -3.08671875}]}], "refusal": null}, "message": {"content": "1\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "1\n### Reason: so\n### Reference: none", "total_tokens": 281}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('da823c9d0aaf695945f4c81b5127798d0c7bcbd0f1fa9a4ae1979b999f24f970','Tie
### Reason: so
### Reference: none',NULL,'stop',333,10,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": -0.36796874999999996, "top_logprobs": [{"token": "1", "bytes": [49], "logprob": -0.36796874999999996}, {"token": "2", "bytes": [50], "logprob": -1.03203125}, {"token": "m", "bytes": [109], "logprob": -1.36796875}, {"token": "M", "bytes": [77], "logprob": -2.03203125}, {"token": "A", "bytes": [65], "logprob": -2.36796875}, {"token": "B", "bytes": [66], "logprob": -3.03203125}]}], "refusal": null}, "message": {"content": "Tie\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "Tie\n### Reason: so\n### Reference: none", "total_tokens": 343}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8d9980e6c9d5959400edfb15494253040a1ae1750233f3ca2c281db71b94d1f5','Both are answers.
So, the final decision is Response 2',NULL,'stop',281,14,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "2", "bytes": [50], "logprob": 0.053906250000000044, "top_logprobs": [{"token": "2", "bytes": [50], "logprob": 0.053906250000000044}, {"token": "M", "bytes": [77], "logprob": -0.94609375}, {"token": "1", "bytes": [49], "logprob": -1.45390625}, {"token": "B", "bytes": [66], "logprob": -1.9460937500000002}, {"token": "m", "bytes": [109], "logprob": -2.45390625}, {"token": "A", "bytes": [65], "logprob": -3.45390625}]}], "refusal": null}, "message": {"content": "Both are answers.\nSo, the final decision is Response 2", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "Both are answers.\nSo, the final decision is Response 2", "total_tokens": 295}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('32881890d8509398c7e4adbedd9b5dc16586f7987af0f2c40f69832bfe2cc2b7','2
### Reason: so
### Reference: none',NULL,'stop',265,10,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": 0.18671875000000004, "top_logprobs": [{"token": "1", "bytes": [49], "logprob": 0.18671875000000004}, {"token": "m", "bytes": [109], "logprob": -0.81328125}, {"token": "2", "bytes": [50], "logprob": -1.58671875}, {"token": "A", "bytes": [65], "logprob": -1.8132812500000002}, {"token": "M", "bytes": [77], "logprob": -2.58671875}, {"token": "B", "bytes": [66], "logprob": -3.58671875}]}], "refusal": null}, "message": {"content": "2\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "2\n### Reason: so\n### Reference: none", "total_tokens": 275}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0f52ab684a202b669ced203a9a1193256f6b61fb82725b82265027e9dee5e5ab','',NULL,'stop',269,1,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "2", "bytes": [50], "logprob": -0.016406249999999956, "top_logprobs": [{"token": "2", "bytes": [50], "logprob": -0.016406249999999956}, {"token": "M", "bytes": [77], "logprob": -1.01640625}, {"token": "1", "bytes": [49], "logprob": -1.38359375}, {"token": "B", "bytes": [66], "logprob": -2.01640625}, {"token": "m", "bytes": [109], "logprob": -2.38359375}, {"token": "A", "bytes": [65], "logprob": -3.38359375}]}], "refusal": null}, "message": {"content": "", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": " ", "total_tokens": 270}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ab93365471049460fa91a6ad8d6feaeb1efea0e4272709a6efa226d49bb84d8e','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',268,30,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": -0.34453124999999996, "top_logprobs": [{"token": "1", "bytes": [49], "logprob": -0.34453124999999996}, {"token": "2", "bytes": [50], "logprob": -1.05546875}, {"token": "m", "bytes": [109], "logprob": -1.34453125}, {"token": "M", "bytes": [77], "logprob": -2.05546875}, {"token": "A", "bytes": [65], "logprob": -2.34453125}, {"token": "B", "bytes": [66], "logprob": -3.05546875}]}], "refusal": null}, "message": {"content": "It could be that 1\n### Reason: so\n### Reference: none, or else that 2\n### Reason: so\n### Reference: none; who can say.", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "It could be that 1\n### Reason: so\n### Reference: none, or else that 2\n### Reason: so\n### Reference: none; who can say.", "total_tokens": 298}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d0c91ae86ea247840d39c144199ae7180b9b4d4e3448e3a6710a36f67b5d0e2b','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',268,30,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "2", "bytes": [50], "logprob": 0.11640625000000004, "top_logprobs": [{"token": "2", "bytes": [50], "logprob": 0.11640625000000004}, {"token": "M", "bytes": [77], "logprob": -0.88359375}, {"token": "1", "bytes": [49], "logprob": -1.51640625}, {"token": "B", "bytes": [66], "logprob": -1.8835937500000002}, {"token": "m", "bytes": [109], "logprob": -2.51640625}, {"token": "A", "bytes": [65], "logprob": -3.51640625}]}], "refusal": null}, "message": {"content": "The first answer says \"So, the final decision is Response 1\", it does not decide.\n2\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "The first answer says \"So, the final decision is Response 1\", it does not decide.\n2\n### Reason: so\n### Reference: none", "total_tokens": 298}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8fe638b503abb3751fbf8a75645da35b7157a04e35b5ce72baa0efb413e0b9cb','Let me look at both of them. The first',NULL,'length',272,10,'{"finish_reason": "length", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": -0.54765625, "top_logprobs": [{"token": "1", "bytes": [49], "logprob": -0.54765625}, {"token": "2", "bytes": [50], "logprob": -0.85234375}, {"token": "m", "bytes": [109], "logprob": -1.54765625}, {"token": "M", "bytes": [77], "logprob": -1.85234375}, {"token": "A", "bytes": [65], "logprob": -2.54765625}, {"token": "B", "bytes": [66], "logprob": -2.85234375}]}], "refusal": null}, "message": {"content": "Let me look at both of them. The first", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "Let me look at both of them. The first", "total_tokens": 282}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3e92df5630b51b7311445fd5318436bb1947ecb30127a24971c4673c4d488a0d','2
### Reason: so
### Reference: none � ',NULL,'stop',271,15,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "2", "bytes": [50], "logprob": 0.007031250000000044, "top_logprobs": [{"token": "2", "bytes": [50], "logprob": 0.007031250000000044}, {"token": "M", "bytes": [77], "logprob": -0.99296875}, {"token": "1", "bytes": [49], "logprob": -1.40703125}, {"token": "B", "bytes": [66], "logprob": -1.9929687500000002}, {"token": "m", "bytes": [109], "logprob": -2.40703125}, {"token": "A", "bytes": [65], "logprob": -3.40703125}]}], "refusal": null}, "message": {"content": "2\n### Reason: so\n### Reference: none \ufffd \u0000 \u202eright to left \ud83d\ude00", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "2\n### Reason: so\n### Reference: none \ufffd \u0000 \u202eright to left \ud83d\ude00", "total_tokens": 286}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a9639dba2271f8cfb3a3fd97e4e5e25c22b94aacbc121ba4e8859f249ecd576f','Tie
### Reason: so
### Reference: none',NULL,'stop',268,10,'{"finish_reason": "stop", "index": 0, "logprobs": {"content": [{"token": "1", "bytes": [49], "logprob": null, "top_logprobs": []}], "refusal": null}, "message": {"content": "Tie\n### Reason: so\n### Reference: none", "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": null}, "text": "Tie\n### Reason: so\n### Reference: none", "total_tokens": 278}','gpt-4-1106-preview','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c5a8f477d54eb41ea0f10057d191e11f7e99974f3b0bd59421e2243586e829a5','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 1}, {"model": "model_2", "rank": 1}]}',NULL,'stop',248,10,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 258}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('fb18401b0a4b3243be733e1b063a576a870f3109b62bdbda289b5bd26d33b1cf','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'stop',187,10,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 197}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d6032df5c554995b5481d63042ea2fe14aef63c60a04bb8e08836ff7515b145e','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'stop',191,10,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 201}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e31f3d38c602da238828ea51cd6548c119575c0f30c7e882454c1ed637eba24f','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'stop',252,10,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 262}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ae3f423b5d946fb6f1489dbc03a20f77df40508ec73b422c8b22cf2d7df87f91','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'stop',201,14,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 215}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('52614873284fca0d87947ae893aadce9bb5dbbe102b8170d58c58d60e3ec11e3','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 1}, {"model": "model_2", "rank": 1}]}',NULL,'stop',184,10,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 194}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4b950b960ec0a69bc0b4c5d948079839ab15b2477d1374e495a5839baf48a4a6','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 1}, {"model": "model_2", "rank": 2}]}',NULL,'stop',188,1,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 2}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 2}]}", "total_tokens": 189}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c10d1b0c63af7d5fb6529b9d01d9958fef0d01e04498693285c7666e682f3981','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 1}, {"model": "model_2", "rank": 1}]}',NULL,'stop',187,30,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 217}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4d647fcbd7f340c31ca18c827ce4a4fc72250305dec410379a57340110ba526e','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'stop',188,30,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 218}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9ebb3de752abefc5b659ec7084afe3ad7af7634f75584b016b9b661fbc8af5a0','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'length',191,10,'{"finish_reason": "length", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 201}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ae9a0a5987c407f2e55e6a54d013e07ee19d8129f1392608ae746ea7e04eddb5','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 1}, {"model": "model_2", "rank": 1}]}',NULL,'stop',190,15,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 1}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 205}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('926ca42c90b929353e109547fb17c022806dacd7b916003f28dbeba72bb85db4','{"concise_explanation": "so", "ordered_models": [{"model": "model_1", "rank": 2}, {"model": "model_2", "rank": 1}]}',NULL,'stop',187,10,'{"finish_reason": "stop", "index": 0, "logprobs": null, "message": {"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null, "function_call": null, "tool_calls": [{"id": "call", "function": {"arguments": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "name": "make_leaderboard"}, "type": "function"}]}, "text": "{\"concise_explanation\": \"so\", \"ordered_models\": [{\"model\": \"model_1\", \"rank\": 2}, {\"model\": \"model_2\", \"rank\": 1}]}", "total_tokens": 197}','gpt-4','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bcd14ac700810c155ddb50e077d2369f362383e8adf3c74516ffb13391cfbef5','<think>1 or 2?</think>
{"golden_verdict": "1"}',NULL,'stop',97,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4552f5800877c8358301a339a9a914125d556b023423ea95ae5b8ec552c4fb66','<think>1 or 2?</think>
{"golden_verdict": "2"}',NULL,'stop',97,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('32ee949290c6f81159a1ee84f45c51f0f53543c4ca4b506f88a3a052e9db75a7','<think>1 or 2?</think>
{"golden_verdict": "1"}',NULL,'stop',37,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2b18f2b72287fcfb57e9cd3fbf72f3f6f9ffd881ef1f8f7890c469ee67390556','<think>1 or 2?</think>
{"golden_verdict": "2"}',NULL,'stop',37,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4f68f08293f5cb9e2028c8108ca305532e8a5ccc136995ef3bb6708bcaedd9e4','<think>1 or 2?</think>
{"golden_verdict": "2"}',NULL,'stop',40,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3efc36342743b64f82ae773c54af0db9c117507fb239ccbb044fbf25bb0e1c5a','<think>1 or 2?</think>
{"golden_verdict": "1"}',NULL,'stop',40,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('39adc4522dd17f21a90b868f255fb929e7e978229ed35f56576a1c02a3fa45d5','<think>1 or 2?</think>
{"golden_verdict": "Tie"}',NULL,'stop',102,13,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('86ecaa0e4f54e11cedaf60b33a8e269f14d750d03b9f6e534fc90e8f26ea231a','<think>1 or 2?</think>
{"golden_verdict": "Tie"}',NULL,'stop',102,13,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0de9a3d916c18ebba4a712ecec96c27147c7bae2e0d134a26827a17ec931719d','<think>1 or 2?</think>
{"golden_verdict": "Tie"}',NULL,'stop',36,13,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1145b1f5c9b0d670ecd13915b0a5925eee08679e34c71129021c2c8c16b208c8','Both are answers.
So, the final decision is Tie',NULL,'stop',50,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e7d0c3dd81cccb785e0a3e7d1d19492d3615824f556dcf6f9da2512d1f4c0da0','Both are answers.
So, the final decision is Tie',NULL,'stop',50,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a043aa96b045ab2043da4298d80a4492adbe2cce2a6040f604e0cdfeb2a3f4c9','<think>1 or 2?</think>
{"golden_verdict": "2"}',NULL,'stop',34,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bd5f4a7288bfeba967e4e588d9bde4150afc49a5e836634d193d85f14acec3a1','<think>1 or 2?</think>
{"golden_verdict": "Tie"}',NULL,'stop',34,13,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3d619bc001b7d1310e5f7ba156b7817d61e8f0930639bb4d10a6b29bcb2b9b5d','',NULL,'stop',38,1,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('dd529b9196c0cdd0edb14d64b488c0f94b53fa30e342e81886a6d0b69656be23','',NULL,'stop',38,1,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e4b88b92ba2514b1badb9743b7fd248748b86c865e1ee9413eee352cccd9fc11','It could be that <think>1 or 2?</think>
{"golden_verdict": "1"}, or else that <think>1 or 2?</think>
{"golden_verdict": "2"}; who can say.',NULL,'stop',37,35,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1fdcbb05323b03fb25d9ee1fd2364c8f405a6361201f57990140682528f8cfe0','It could be that <think>1 or 2?</think>
{"golden_verdict": "1"}, or else that <think>1 or 2?</think>
{"golden_verdict": "2"}; who can say.',NULL,'stop',37,35,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('89e33a65f9728b4cebb5707de94b982dea2e97ab2e9f8920849466271a0f27eb','The first answer says "So, the final decision is Response 1", it does not decide.
<think>1 or 2?</think>
{"golden_verdict": "2"}',NULL,'stop',37,33,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('31fe1ae80d0b3d50e2a12d0a992159bebb2efe2e7231e03f7c89104fa71b9547','The first answer says "So, the final decision is Response 1", it does not decide.
<think>1 or 2?</think>
{"golden_verdict": "2"}',NULL,'stop',37,33,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('fe136287743b7e8d97463fcf5b1ff6c7d89139596ff41d007d4acf06dc2fa12b','Let me look at both of them. The first',NULL,'length',41,10,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('fb5b3951d49a6eee7578c9127252415850cf8772c41d7fa9a0ef3977d9fae1b5','Let me look at both of them. The first',NULL,'length',41,10,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c191d47e5dd94eb3d044eeb87499c20e2668b623121a88e1f81da10472bedc06','<think>1 or 2?</think>
{"golden_verdict": "1"} � ',NULL,'stop',40,17,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('72e67b37c32435769d26ef08a7ca9d5c2c11c9bebf7aaae2b795aab046ee1ab2','<think>1 or 2?</think>
{"golden_verdict": "1"} � ',NULL,'stop',40,17,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0e063d671c3089eadb1e4189a90dcb204d314af628d7873c787521a6a1a07f26','<think>1 or 2?</think>
{"golden_verdict": "Tie"}',NULL,'stop',37,13,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5c78dcbd80c31a7981c8b0a81704b70bcbad8dd516daf32fbdca933e9b7f8495','<think>1 or 2?</think>
{"golden_verdict": "1"}',NULL,'stop',37,12,NULL,'some/json','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1fd3a13f8eb301a5878b8a10515c083208d43601d9df8b0e76df51f14758864f','1
### Reason: so
### Reference: none','{"A": -2.61796875, "B": -2.78203125}','stop',87,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7c373ef10ac8cc2e8d7faeb6a652f41822a234bd684185b87cd4f2a6cd603f5d','2
### Reason: so
### Reference: none','{"A": -3.54765625, "B": -1.8523437500000002}','stop',87,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a6ab2611c092b6872f1433da3067bcbf00a9f160b9647942bbf07d7572bb7876','Tie
### Reason: so
### Reference: none','{"A": -3.11796875, "B": -2.28203125}','stop',27,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1c24cdd47a06cd32bc482f42c28172f1ae8d6b980b5487515405e065cb862f05','2
### Reason: so
### Reference: none','{"A": -2.16484375, "B": -3.23515625}','stop',27,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f7713faedce66247e63a8f6dcf59b50d106f6de08f01606d2cf8d63d4bd3b566','Tie
### Reason: so
### Reference: none','{"A": -3.00078125, "B": -2.39921875}','stop',30,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('16b4d3ede589ce6dc94791cf5c89f1bb4133e02a6fe64bda17db2afdfade556b','1
### Reason: so
### Reference: none','{"A": -2.80546875, "B": -2.59453125}','stop',30,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c57ab893d7c75d791a09bf6abec9674f1991d7018262050c7bc6f2aef52142b8','1
### Reason: so
### Reference: none','{"A": -2.14921875, "B": -3.25078125}','stop',92,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f26ab714e75816c03d4661dae3233c1da41e4891126272f6493656a851f0c206','Tie
### Reason: so
### Reference: none','{"A": -1.8992187500000002, "B": -3.50078125}','stop',92,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('51e4c4e5f271dc280efbd8167e9ba0e28d394b2eaba7bfab5701842c825387f0','1
### Reason: so
### Reference: none','{"A": -3.18046875, "B": -2.21953125}','stop',26,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3e8a9d6dac65d359b2bafd6c9d2fb881df9cfebcc55a649ee81b25694a7f3615','Both are answers.
So, the final decision is Response 2','{"A": -2.68046875, "B": -2.71953125}','stop',40,14,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a19721eb5d6dae69dc452d610ec1f390e58335b8dbbb0911325598e76b79d3bf','Both are answers.
So, the final decision is Response 2','{"A": -1.8601562500000002, "B": -3.53984375}','stop',40,14,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2fb4b1de19ec6fd8a7b12aee7512bb0baca8131cdee26fe20eb0b816c8882df8','2
### Reason: so
### Reference: none','{"A": -3.07890625, "B": -2.32109375}','stop',24,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7cb3ce8cba93aff2f9620846fabbbf0d347e7da6741d8713816c48c1f9bc7535','2
### Reason: so
### Reference: none','{"A": -3.33671875, "B": -2.06328125}','stop',24,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('287764ba784b45c5a0d4aca3bc1455bf42116dc2a26c0edb89b0842f51995dfb','','{"A": -2.65703125, "B": -2.74296875}','stop',28,1,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8d2399fc8c16412de028a84c110dd287e0fe3cd2694fd3a045c3545a212dfec6','','{"A": -3.25078125, "B": -2.14921875}','stop',28,1,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d29ab6130964ff056df022837294d7014db07141033d8e7e3c69fd3b589b83c6','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.','{"A": -3.03203125, "B": -2.36796875}','stop',27,30,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7b6e43090eaf10cf620a2819ca636ad1372fb9de2238046504bbee580ea1cf37','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.','{"A": -2.30546875, "B": -3.09453125}','stop',27,30,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('474a06648fa5908fda1279b61eefbf3ab5f629374e1fe74ff0d89d3500ec305f','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none','{"A": -3.03203125, "B": -2.36796875}','stop',27,30,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8d6919118c03ac251af78a083369877ee783609cc29880764aefd8097feac5c4','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none','{"A": -1.7585937500000002, "B": -3.64140625}','stop',27,30,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a8bb981ca06256a9da74674b74af983da1ee5fc334efa9f675cd20ecea2c81a6','Let me look at both of them. The first','{"A": -2.25859375, "B": -3.14140625}','length',31,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d3ba88d1553fb404871128ccac0892988d553927d9f59514a317cd8183a49fa7','Let me look at both of them. The first','{"A": -3.32109375, "B": -2.07890625}','length',31,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('10643a8779c42f7dd3dfdc42ae75b2e339edc6e08bc4c8c5a852a678daed57ec','Tie
### Reason: so
### Reference: none � ','{"A": -2.11015625, "B": -3.28984375}','stop',30,15,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('97d80630a573ee1a504723004ea21f78ed613a5d4595a875d25580241b97a5fb','Tie
### Reason: so
### Reference: none � ','{"A": -3.61015625, "B": -1.7898437500000002}','stop',30,15,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('974a78e4854fa34835f28c830f4ef08bfa57d57e63b98a6f29eb7fd0ab9b09a2','1
### Reason: so
### Reference: none','{}','stop',27,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('afde70b2dc0191544821cb46eba48fb643da604c6184fdbf3c604cace28dccd0','1
### Reason: so
### Reference: none','{}','stop',27,10,NULL,'model','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f3d4a373a95d47efa00672cea338966ea23c914c5305a68b1cb003312112c115','It answers. Rating: [[7]]',NULL,'stop',73,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2300a6c267e4ea8a943d897b77a003b9d20c946d06fed812ef971fc72b1618e9','It answers. Rating: [[4]]',NULL,'stop',75,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('81413323bcbc0b66792544e524268786c1ec633fb6e1eb9ce5f9833b36a7f1c4','It answers. Rating: [[3]]',NULL,'stop',30,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2ec89b55dc5e49e15d39daac50513bdb715a1f652c47d9efbfd80e2077cf35f0','It answers. Rating: [[5]]',NULL,'stop',29,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d227bc736a7d1fade95da7c786987e209a36b6fbfeb4b9173c325b6305f2b654','It answers. Rating: [[10]]',NULL,'stop',31,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9474175863b7077105abad07badd0000b6e160cc01494c203b019a2c94011ce7','It answers. Rating: [[5]]',NULL,'stop',33,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d3fe51f72e51f14c11ab892604503e3bc0a17c6ce33e6699f051ebfc9a0f293b','It answers. Rating: [[4]]',NULL,'stop',77,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('709bd090028f2f13472475514d9cda3cba73f7be30b6123a35917826c4af1008','It answers. Rating: [[10]]',NULL,'stop',79,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3b530eedc0e68f1584570e8b62ba925bb5fe564d85d55466651ed6f79e4de9be','It answers. Rating: [[3]]',NULL,'stop',28,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('eaa18e6db6c6e51d0c392c1c8c2ce50a679c2d6ee7ab1048fc4bdd62dfe1e28f','Both are answers.
So, the final decision is Response 2',NULL,'stop',37,14,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('6d45ae50eb07a099f8e83146a01ae839df8569d8da758aefe23396af0a118ff9','It answers. Rating: [[2]]',NULL,'stop',34,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('cd861b2002988257cb15d7ba7f6dba8e6f7da1adcf5a665e06170b841f672228','It answers. Rating: [[8]]',NULL,'stop',26,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('42b10fdb6f7a18f32a2e17ca4d734d11832b22d968ed5bafa8202b492e052680','It answers. Rating: [[9]]',NULL,'stop',28,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('791a5e3d939da3e9de29e32c6d29bb5d26ac6273df6392339fc5b887ed21711f','',NULL,'stop',29,1,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('645dfb64d5eb3a6ec1a2a55b273ac5c8f7924a908af1e950c81b7bbc5b9a8870','',NULL,'stop',30,1,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('250c314b6a7fcddb42f160f36d3d0afc01ac13f5ddfa3537d80244838267a50f','It could be that It answers. Rating: [[7]], or else that It answers. Rating: [[7]]; who can say.',NULL,'stop',28,25,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('35fab44794dc655a248bdedffc93fbe4b8365f2d0865064bf691a62feeca13bf','It could be that It answers. Rating: [[2]], or else that It answers. Rating: [[2]]; who can say.',NULL,'stop',29,25,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c26eda86f6207230a1ca5bf71d2d55d638f57d4f41d249b5955a9c64b72d86e3','The first answer says "So, the final decision is Response 1", it does not decide.
It answers. Rating: [[4]]',NULL,'stop',29,27,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('663ebc5a67d1ec8d9f5fe62065275b8924c5431f2ca7d335a905c921aaef43ad','The first answer says "So, the final decision is Response 1", it does not decide.
It answers. Rating: [[6]]',NULL,'stop',30,27,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ef05e467d4dd27e195b6117139fc8894955e241e58fa1296304189a1076807ed','Let me look at both of them. The first',NULL,'length',31,10,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bcc79c81fb811fa8dd5510c79d28c7f276fe2885faf9b0b79c3eaf20d98f5327','Let me look at both of them. The first',NULL,'length',32,10,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('15b909ba42fec047c654c196e1cc99be9c17020188a6a5f4352bc8143640672a','It answers. Rating: [[3]] � ',NULL,'stop',30,12,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('6d1fd270c732cc5cee573912ddd4f35f3e0d5a8b31f4717d84c2c287a6899b7a','It answers. Rating: [[7]] � ',NULL,'stop',31,12,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('946b97c470ca3c4b04740acfcb0485adb387f515c66ba49afa673f64aaebe419','It answers. Rating: [[3]]',NULL,'stop',28,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('889f94e56c211cd5caf1e230cf446fee50fa1756b314937549fd6aa5148bd323','It answers. Rating: [[6]]',NULL,'stop',29,7,NULL,'some/rating','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('76c31f367c5820f24680e99874e66d2ead36f6a9087862f199c1c1ee4d14f44d','2
### Reason: so
### Reference: none',NULL,'stop',88,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('0140d5df5c57a178cce45811fa7125a06560523d8e0168fba74cabbb7df323d7','Tie
### Reason: so
### Reference: none',NULL,'stop',88,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('09115dac77e63faacddba87088321ec9ea6015d1140c7e8124fbf1712fad9bcf','1
### Reason: so
### Reference: none',NULL,'stop',27,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f0d0879b1239a898a991be9ed4c98ecac57a17cce80c3ec980fb7555cc93ca1f','1
### Reason: so
### Reference: none',NULL,'stop',27,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8a3581f8ca4a36defbd6f9d420ac8dd5e88df46b9b8ea7b10585d63b7268a47d','1
### Reason: so
### Reference: none',NULL,'stop',31,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('07a009ab764865526e2164c6cca26401d84673b0ec1fb81493cf0363238380cd','1
### Reason: so
### Reference: none',NULL,'stop',31,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8a3aaeb42bc6390511e5f89b1b6cdfb07ca4bf13d8f24e4eb146e1ccbf392b26','2
### Reason: so
### Reference: none',NULL,'stop',92,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('eccc1527e006facaab5bc77ad0d77d654f601d341e87d527e1d312cd7639d33a','2
### Reason: so
### Reference: none',NULL,'stop',92,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('8e27c37fced77ba74e70c8f0dbb6bf423d9495b2ad06dca903f5f7cf76616e00','1
### Reason: so
### Reference: none',NULL,'stop',26,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c52a4c381d6038a536165170cf56ebadbebc8ab6373c5f04cbc15f0bd4065d94','Both are answers.
So, the final decision is Response 2',NULL,'stop',41,14,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e1fb1a2da9024075ac0710b436008ec61303bc1f3d9100b379a482cdc1c1aaf4','Both are answers.
So, the final decision is Tie',NULL,'stop',41,12,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('798661f56e1656c39d20999ea8bb60f1cbcc62f93a450983b2cfdc87c14819a8','Tie
### Reason: so
### Reference: none',NULL,'stop',24,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('1244a33dc4dba02d0827e9a6f1e31473c00b69640c114cef01132d71cf6cf64c','2
### Reason: so
### Reference: none',NULL,'stop',24,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('219ca1b9550b057bd1190fca6d9d272529ade5bb66d47a1a457d1c70f411583b','',NULL,'stop',28,1,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('9eab223281e91e1a13f2d3efad6ca8ee6c4194960c7b0b0838908f5bc339b12d','',NULL,'stop',28,1,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('395ff45e8a1354ec2260a379714c321495092212fd1cda76c0dd7ef1195478fd','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',27,30,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('223e50e0e4141cc99ab1cb6a26e3332a8cb48fb9b0a9bdf79c8c0a9628189cd6','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',27,30,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('61d29825e214427c21175b7acd07fd3ff66b74d2790e950ad01f9bb2c24952e6','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',28,30,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('50be8ecee0e95a4ad3ab4f517ef9b87e538fcf1dc3975179c7a1a29188c96f99','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',28,30,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('4e6dedc36ffe11ef17123fe2062ae6d50a5ba0bad94e5ebd16468c919ef5c98d','Let me look at both of them. The first',NULL,'length',31,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('c7d88c81589b7b7a4034dc24925258b23ebd0e9a321616b3755a2215b11e723f','Let me look at both of them. The first',NULL,'length',31,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3be2d7a3d9dbf0b1d899792967772ce73c6f6f22c684f7640cd1dea9afbbc798','Tie
### Reason: so
### Reference: none � ',NULL,'stop',30,15,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('92db51a8096ac7f685da95778752b0acc090f3c955b748c6beb092696d0f8ca6','2
### Reason: so
### Reference: none � ',NULL,'stop',30,15,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('5e1c93864d0d4d12fef7f76b7775a84c26cff13c5f1e9d911d9a5ffab4b46a34','2
### Reason: so
### Reference: none',NULL,'stop',27,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('366f14e9b374e76fec33d9dfe015adc59a1ca215ace057e46335c4fc322a8a36','Tie
### Reason: so
### Reference: none',NULL,'stop',27,10,NULL,'some/regex','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('61fbb47270c0e2f1232cb8c6c5d7d5fe8fb12baf403813b1cbbd7b8653ad6007','Tie
### Reason: so
### Reference: none',NULL,'stop',89,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('fe3ad523bbc032f5d3f7b15773c9fab149d180b7a0b3700edc472296132b03f4','1
### Reason: so
### Reference: none',NULL,'stop',89,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d32e41babd187e115c74d9f7ca5804a052b49f7efe800db7cb8dcdce1ff46b27','2
### Reason: so
### Reference: none',NULL,'stop',28,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('cb2f5d1afaba20ab7668e570afab9715f377fb072eb429133fe0fd922fe5ab12','Tie
### Reason: so
### Reference: none',NULL,'stop',28,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('d0bfdfc76a6b2dc008fc756cf4064ba1d2998bd4a0029ad2e33d79c62a8814a3','Tie
### Reason: so
### Reference: none',NULL,'stop',32,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('46abb77b4b85b7f3ad92f31d55ec45ad6e505030fd9b057b381d4480ea93c655','Tie
### Reason: so
### Reference: none',NULL,'stop',32,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('cfe5debd45af5b4293ca7f131ef90ace77de7128f3021e91b051a5b7ee67003b','Tie
### Reason: so
### Reference: none',NULL,'stop',93,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a2a9cffd58dc38908ece3c4e45a751413f7293421ffad6b349f194b5ab47ce72','Tie
### Reason: so
### Reference: none',NULL,'stop',93,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e1cfea4271b363f883393a84b49f8f1d49878e12792ae7f2842f489f9efa25bd','1
### Reason: so
### Reference: none',NULL,'stop',27,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('99e587b51813019df7d72aed6982d6ccd317a79e963b89ea670b597c00d0522c','Both are answers.
So, the final decision is Response 2',NULL,'stop',42,14,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('40c1fe93c0dc563baf82d6e828bdedbe2eb34709527e2e971d1b00628b28c31a','Both are answers.
So, the final decision is Tie',NULL,'stop',42,12,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('f1409883ce0c86a3a638d062792220c68b82a23fa2131527c86a8926e0485d03','1
### Reason: so
### Reference: none',NULL,'stop',25,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('87678093239926894fbfb257c764e18c5ad9e7153542d38c90d8b07f743534c2','Tie
### Reason: so
### Reference: none',NULL,'stop',25,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('53cb070a41927a050b20dba34b00a2b9811ad21ee8a563cd868313304e26f7d6','',NULL,'stop',29,1,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e347c017716283656e7f82bfdb9ab43b3c839d401dac7766d637eb76bbdbb2c6','',NULL,'stop',29,1,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('aaf0dfa12a945e3724055e3fc9cc05d5a6d0f7612dcd2e889f144184656e5ccb','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',28,30,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('2f2e971d0a57145231eb6b781b570066e06fd7a3a8a632cafebf5a0691474484','It could be that 1
### Reason: so
### Reference: none, or else that 2
### Reason: so
### Reference: none; who can say.',NULL,'stop',28,30,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('82c33b08e9c710dfb4cc735c2fcfc289c0236da9b0d030a5f654482d93e6a171','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',29,30,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('e25d1121df85d2119e6112d8db253d897943223c6ac2d3ea76ffb07b190e5f6b','The first answer says "So, the final decision is Response 1", it does not decide.
2
### Reason: so
### Reference: none',NULL,'stop',29,30,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('3c68053ae2abf26bec115bbf41cf0315ed76d5dc939da62f10913bd97817b4fa','Let me look at both of them. The first',NULL,'length',32,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('975009e677b786a421465cc7b71505f891c618b1fced12489d30da53d29a102c','Let me look at both of them. The first',NULL,'length',32,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('7a51cd1aa9dd399cc3f66b5a03be2b0b360e10e89b8a9396bd42fff61a4d4dc1','Tie
### Reason: so
### Reference: none � ',NULL,'stop',31,15,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('bccff20e8121a146aa0d42f57fba0cce8c6d5d89d03382ef3612897ba87f64c4','2
### Reason: so
### Reference: none � ',NULL,'stop',31,15,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('a9da2572a956558f2dca931859146c81b68122c44be3162591ab3a32ec2a3318','Tie
### Reason: so
### Reference: none',NULL,'stop',28,10,NULL,'some/words','2026-01-01T00:00:00Z');
INSERT INTO "completions" VALUES('ac964240d94ac9a56d49eb4d9d62dd0685db326f16a7f74e35277734c692b070','1
### Reason: so
### Reference: none',NULL,'stop',28,10,NULL,'some/words','2026-01-01T00:00:00Z');
CREATE TABLE judgments (
    judge TEXT NOT NULL,
    candidate TEXT NOT NULL,
    baseline TEXT NOT NULL,
    pair INTEGER NOT NULL,
    instruction TEXT NOT NULL,
    dataset TEXT NOT NULL,
    position TEXT NOT NULL CHECK (position IN ('first', 'second')),
    key TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('first', 'second', 'tie', 'unparsed', 'failed')),
    reason TEXT,
    preference REAL,
    ratings TEXT,
    trimmed INTEGER NOT NULL,
    PRIMARY KEY (judge, candidate, baseline, instruction, position)
) STRICT;
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','f923cb6fa12c622dc015f1bbbd36f19505662f34a55be2a456cf532903cbdbfa','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','426d66a07d3e097cd682cddccedc3908001225a8a9b9ef3485bbfcf7a5b9cb47','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',1,'Translate the input.','special','first','d64a908bfe2a0233c6bd266b11c5ee69cd191f10d28d566bd869a003e4bea60c','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',1,'Translate the input.','special','second','d103b7b00b0dbddbb374aa41111e21ff29612009fb9d757d4a4c10940f47836e','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','be66d2a40b45c6218db413e749f3910f1c229ec190e7c994eb8c5ce7e825026f','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','e3c4b5f582f2a92b1a482cbaa373e4772f239e1258d8a411fa70cf77ac6fc33f','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','c1c8c8277690c56af0f5f76702f129108030fac597ab2e5a43142c1a38e9bacd','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','08e3c6e875b6a6ba7f531062e85ffaaebc7f02263fb0ed85fd5c4831cba0f03b','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',4,'Say the same.','special','first','4a2e1c94ecb2bd30105d614c4f62854f1d4c1a4c958958ca43cb1ce0c496f427','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',4,'Say the same.','special','second','4a2e1c94ecb2bd30105d614c4f62854f1d4c1a4c958958ca43cb1ce0c496f427','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',5,'Name a capital.','special','first','9dd2031cd894b0922ea475f07ff1bf7d0190f2fa05e6063d8db7addfc06589fa','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',5,'Name a capital.','special','second','545b849566e5db27a5798b37dd4d76f857c769dd229f75de929be8c4bca53586','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',6,'Say nothing.','special','first','741957baf7385961f62f30f355a487aa43f577b859bacea3b811ca113a78f32a','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',6,'Say nothing.','special','second','1b38424c00cef23ac9ea9c87efe3fbf6347929a71288f48f409514b56c50d109','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',7,'Ask for <filter>.','special','first','7708fc2defbef111e2965cf70d39cb25ef3e6af6e6786a0f19604978d1792c08','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',7,'Ask for <filter>.','special','second','a106c81cac80faf1e234fea94dca42403683603ea3b604c866cf771554b66a46','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',8,'Ask for <blank>.','special','first','f5cb6d1a2dc967adf9d8d51be59db4087142d1a557a75ee0a53f64300c5ac0bc','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',8,'Ask for <blank>.','special','second','1d6be4013924c9c140fb04356541cb7870474138fd86b43b3c8565ce30e873f3','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',9,'Ask for <two>.','special','first','02cb0b2811e15169c4a11f4053a48f1614054c80706b6f62152f72f408cdb3b8','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',9,'Ask for <two>.','special','second','7c5a78b774996a5bedba309572bc89fa5dcc548b7b7adafbd0f36b9bdf024ab4','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',10,'Ask for <echo>.','special','first','a458aa068d7d94c401fbd58f373ad246bc2ab3b8eb5c57c0d6b4a041c983244e','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',10,'Ask for <echo>.','special','second','2d704ebfcef632b1df8e08c3fa442bde3a4c4b1b1b50b29f6f208c3e570a13a6','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',11,'Ask for <truncated>.','special','first','539539f0d5bc98fd6da097d2e7357a671e133326f074c92ad74c009d94af99ad','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',11,'Ask for <truncated>.','special','second','df2fcc4cecb9f09d01a88b8c7b239d56f8587d6ec221db1910350276c1021681','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',12,'Ask for <unicode>.','special','first','0d0b1da62a6edeb15aacb4232406acd1bdfa963848677e795f71332f16123c9e','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',12,'Ask for <unicode>.','special','second','004ad62d07521ec32b3ed01ae64ca2cd2d5389a63d69a04e96097c2169ae3a8b','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',13,'Ask for <nan>.','special','first','21236064ad16c8a8a4a8ba2d34c07c3e9ee318e939004a84ae9e8e978e9de629','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('pandalm','ours','theirs',13,'Ask for <nan>.','special','second','915349793c917f25ecec62cea4bb140b1e184c9591c5a109589120b192001ebe','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','814ff6d41dc703add385ae3d458c83665582cc595eccc889b929c899b8e64c31','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','f52f0f1ccd859eb232754b0e230e60b0a3175d9b4c46f501ae0d4e5430c77d40','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',1,'Translate the input.','special','first','5b6d91be361b9fd580f0b77fd85922787c3da001259867e2b94104c1d5cc70fc','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',1,'Translate the input.','special','second','a26520705ec78996ec0cf59f9b56417480302db43b5e3ac020b3ddb1f9f602c7','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','58405a8732f61996899eddf5a78f4bd5714714f3f74a956eaecb0800f6399dd5','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','bcc192e44d8d6f2cf7f73aa43c1a867ee27ef07cff341776adee327a73393807','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','df99107286dc02f8a86a87c27169ac12e645c6fdb938592c39782ce3ed3c05d6','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','60f59bf44d4c82c7761fd04657411ce4aae8d9160590f1bfd2cac8fb268cd242','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',4,'Say the same.','special','first','286a46d86e842c6c52c33058e773f28525a58f6080a6fd4f544b86ce19852b71','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',4,'Say the same.','special','second','286a46d86e842c6c52c33058e773f28525a58f6080a6fd4f544b86ce19852b71','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',5,'Name a capital.','special','first','364ccafe2b2cdad298de26032c6e7ff00f989ae433a69e67157de9dc5086b55b','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',5,'Name a capital.','special','second','134dbb8b61ca25b9da7187f173d5d9a9aaf1e7866e96023667e8b41bca1c12d9','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',6,'Say nothing.','special','first','170b8eb727eb6ce2d898b6e143c251d2b2757d8901e0353b244571be7ff7c603','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',6,'Say nothing.','special','second','10a37cbbf9d70920550ea74dca99bccf30b31e60604a50a1323a45fbf774657f','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',7,'Ask for <filter>.','special','first','10224bb906e1f265b44f70359ed070314c80e1c90691309f6df6a3423bc3af4f','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',7,'Ask for <filter>.','special','second','02d5643b71f2ea708df3e02f02f0e6a487fd654395dc59380aa942d296886fe6','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',8,'Ask for <blank>.','special','first','64aa1486e250603639676d5cc48ae1dcd27040a01db88b6d367351643f2eef74','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',8,'Ask for <blank>.','special','second','2f549f813963fc9814d22e54ee314f63f25de9d8d6394dbc420cb53ab2f30746','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',9,'Ask for <two>.','special','first','b2c3f9605519d8f024cae9c43ed76a9e80fac06c436ecc1de027b22c5698dbe0','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',9,'Ask for <two>.','special','second','30c3c5d5e5182ef35d936fc28760e529f536ec7dd239160939c3b32415ada2ab','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',10,'Ask for <echo>.','special','first','3b63a8e37c447f693a7d5d5d3a49ca1e60f3a8ffb8eb1e41766ebdd20514bdf3','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',10,'Ask for <echo>.','special','second','bbd9dbee5feb658b85be5d4af88eb9f58e1fe63358a912a24a44c6c60035b564','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',11,'Ask for <truncated>.','special','first','1b5ca90175fdef866f5e3d6caf255d8b48c9afcd7c0b491f66b20278d2a941d7','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',11,'Ask for <truncated>.','special','second','5f25b35492d4761f67843c444c6652dbe974cf6a998096ca335b755188707b9f','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',12,'Ask for <unicode>.','special','first','bd0e3a79751652db0fc6457e4d6f21f64bbc367e78e9cf3063baf1940b100a34','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',12,'Ask for <unicode>.','special','second','1259915b1bd3656c44f03a291c024a26d46658a03d2b516d57520b3f7d925a7d','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',13,'Ask for <nan>.','special','first','201001dea05403a94818357be6dbdfe9a3ec0d4e1ed4cc98dab31fd376b30545','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj','ours','theirs',13,'Ask for <nan>.','special','second','5bbb996b73cde481b1d1d4c87ae53608cb252518d19c6b063dfebb9aa46952f2','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','c6bb6ef1f299d5b6b9b1c4fc97ff08da5f30de7649065a27e49ccd0cbd4a346d','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','d673e133b71d4fca11ac80083c4087bdc85d74c208c488fa23fc05cfdf8810a6','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',1,'Translate the input.','special','first','b0b0566d0f982234d7a0d600c5fc8ff4f2830d317747a1df0ae1c9b182a2865b','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',1,'Translate the input.','special','second','54aaa004fb74989af809645a60a63ede0cd807dc7fd24896b6a3eeaa71896cc6','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','b7d6e519f8f8b6c2ceff67e374c2a4477182fa0da40aa3b56690a5d86e6cbf31','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','c1bc6f35f960bc254d6bc887dde053750bf3fb7db0f8434f5bc73b34cf56263c','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','ef28f1ed08874f2d92d974a2d7eecd4939a3b68d5964cc7dda7c1855c7db3587','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','0b5ca8fae530abad673329ca0bf9f1e0649576a5a710286a0a33659682d65d1a','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',4,'Say the same.','special','first','772edb9e670d820e8133912b34660ba2f9fe96e373270ba8820afd28ad02a542','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',4,'Say the same.','special','second','772edb9e670d820e8133912b34660ba2f9fe96e373270ba8820afd28ad02a542','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',5,'Name a capital.','special','first','040523cf59d375ca51431ea343930f083212b3c7b9de144a6fee365d059a773d','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',5,'Name a capital.','special','second','16ed79ec811bffc103022a21807b1c29a7a70df85a8a5cbce09ed2fbde8497ec','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',6,'Say nothing.','special','first','408fd2bec15e31984f665db679cdfc183eeae26e6b9530c38b50c9b3ac1e76f6','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',6,'Say nothing.','special','second','098a72d76fadd9a2e43943aea437ec4a4e591bed21d12b86bc5e86f678969d40','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',7,'Ask for <filter>.','special','first','09ced562dfd3bd6ee648f97f3a77aeb749daccba590a8c3939baf7d7cb491935','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',7,'Ask for <filter>.','special','second','f5e41c7142a5fd5805b6aad688bd14b823bc7b8fee95e3cd23995037b73442d3','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',8,'Ask for <blank>.','special','first','ee3570f5a751d37de2f5562a0b9d3048961198f9e4549d80182f38ac1e06fc4c','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',8,'Ask for <blank>.','special','second','015fa5fefb82774f09ed74661f065db2aef7a6a5e5fb4a5cac724dc8dc5791cc','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',9,'Ask for <two>.','special','first','ea357f427fef5093af7d1658af2663eb083fe28b3baab6148d806b747e9fbedc','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',9,'Ask for <two>.','special','second','3b57cfb3c8861635e7ac4b036d7f5e4a19d5281497ebe3b1680d8ba81a1ff671','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',10,'Ask for <echo>.','special','first','83ba29c1b095e0e0f6aff2d5b22c3bca24a196a0ade374dc31173fb6e32be97a','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',10,'Ask for <echo>.','special','second','83a4bc46c712fa3778e9aedac781395ab687abd2cacc658ea12fb9d5a4aff83b','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',11,'Ask for <truncated>.','special','first','36e1a403db71efe843e841536eb079313f15829cc785c0f5417985fe79451212','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',11,'Ask for <truncated>.','special','second','9d51eff07d44bcabb4c5bcd12605d43cb854bb14f33b8e052304c3ce324b621a','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',12,'Ask for <unicode>.','special','first','05f29abb6da3052a4924792d49f140591d8804891a4da2038cf3a3f4f9702ac3','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',12,'Ask for <unicode>.','special','second','b6783ca297567abbc4cdabfbccb4c37efd3549841d0fd804197c40e98bf347e5','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',13,'Ask for <nan>.','special','first','981773c97941cee7272fbe957fc072524eea1ef11b6d43d3d00ba83ddd9e328c','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_4bit','ours','theirs',13,'Ask for <nan>.','special','second','eaa16f1c424d548183d60f5f80b3492f4579c5f371773278ff8b175e542cc998','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','094fba84a8df53d7acf62eba680a4da7a7f5dfeed4af384325e7a66b41addd39 7879db58991cd0f0be728c80707cc003c36b2e522d7afa314e0a52867f53cce7','first',NULL,NULL,'[10.0, 9.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',1,'Translate the input.','special','first','5527009174de9c386cfa65fa0af632299a97eff7913ac3577724b932f7876934 7b0be15af05ecb8bc05d469e297e89d1de03d8b84241fa83c514b0c7f9b35126','first',NULL,NULL,'[7.0, 3.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','dd6035d9cbaf8e9532b47384e78d4f379f5998688a2980b4c185d50987ce6c6b 88212c4365952b71952f86e03542de4e6beb6446d8bea08ad17b1fcac925e018','first',NULL,NULL,'[7.0, 4.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','9b66fa34fe246da02d5396e02a581697d111d0c2916cd64b1243fdcffc0b3b1f b3dbaa654a343c0a5fc851e167ce10fc39abe0a1a7b0d6aa1671a8676e639276','first',NULL,NULL,'[9.0, 1.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',4,'Say the same.','special','first','78494ab18f96743f61f2f44805c1a7dee34c6607f9947fd87c00afda26f0450d 78494ab18f96743f61f2f44805c1a7dee34c6607f9947fd87c00afda26f0450d','tie',NULL,NULL,'[10.0, 10.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',5,'Name a capital.','special','first','02e42746a38ea9fbb2cb22be8eae8b179b8ae960c0d5c9aeea471167e6851656 e1b8a958806108f0b38a1b735bcb3aec33a34984f102cdfd831c65e2b584f306','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',6,'Say nothing.','special','first','ded39dbef7373f037386c2caa34ebb13ce89ca6b4a30661417bbca5a193a966e e60b7cc4342f4dc3921f62419cfb2610dde3ee70145f89e43f5b2b0268f6baf3','first',NULL,NULL,'[8.0, 1.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',7,'Ask for <filter>.','special','first','028dbe324a056234b4a93dc186ddd049720d1f224fddae4b8df6ab30edc2a3bc 8ad7c3613f4013ba26ff3fe5bf267de52f17c0a00cdacc1f51e4727e7888f49c','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',8,'Ask for <blank>.','special','first','b0eacc9a6b1f36c40ce9fc0e092c3e3f386be52502fb6895ae9ba168b84ee0e4 ec282df5f2b37aebcaf51c357c11fa6783af185b67b34a92bcbd6ceef376585c','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',9,'Ask for <two>.','special','first','df6324a1d22762bf9f1b7529feba0f3f4d4e7d4152b97d56fdfe2b562cf630af 999358527e05516e0881f1d10eb3ee3894eb1f18f44712672fd9f039fbe1a3ef','tie',NULL,NULL,'[6.0, 6.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',10,'Ask for <echo>.','special','first','c34bfd8fa729e341a7f318e82a9e7a0eb591e70abf3619cae95b1085096b2229 4058dec80bcdb2c66217e27c11efcbe257e250566e5f9d7dd65fa219b034b291','first',NULL,NULL,'[5.0, 3.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',11,'Ask for <truncated>.','special','first','e3475e6b2f5324801576a40bfab4c64c1c4eec82357422116965898772545f80 5be8f5719cca8017d8a032a227d9ff8cf3ceeaf36773f8c7a44c51474b7e37e5','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',12,'Ask for <unicode>.','special','first','e293e29d96d81083fa2357ee6ee18515f51a9e4170255d0c8ca867e5e2e9beee 60d808346834d8d2f520ea0511af859813865bc935075eb136488b38f6af2055','first',NULL,NULL,'[8.0, 2.0]',0);
INSERT INTO "judgments" VALUES('autoj_single','ours','theirs',13,'Ask for <nan>.','special','first','4099f5b7161501dc947633f0b17a65aaacf72b6960e0fe842edf94c3a27d0eb2 87c75842896a013eb4fee2e1eff1e12264935ba497c09e1d83eeb4b568c12b86','first',NULL,NULL,'[6.0, 4.0]',0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','8784d3c11d5b69ef0f4e7c70fd5088e70372341cbaad718fab5d1a801cf2af94','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','58630c3a03db6996faf8c46a75bedd1627cb70389cd56ca96d71dbf7295bae35','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',1,'Translate the input.','special','first','4c046eef263a7dcba25eac604421e8d4195bad9a60b47b1cad181e94677211ac','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',1,'Translate the input.','special','second','5a9f3832b45648a36169a8956fe793e462ee2e395800e3de12231185c7cd75b1','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','e78bffd99555403be6e5dbd5119b14388a6f2050870022a461c7558c36bc72ab','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','b2c568af07dc0ae8c44daf4a87ca4a40ba5710339a2480c6d5858b0f1954fd72','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','dd17062ff87d42ff3bd8b01497c9cd079e948d03617a28e678b2bb5e8a88cc1e','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','c2378f92469303baff5d55f9cb829fddca7285d79db13c52368be1dceba62ade','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',4,'Say the same.','special','first','97304b926f17c345f0b9f57a232c79ffc3d3aef744e9eede4182d5e3cec78693','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',4,'Say the same.','special','second','97304b926f17c345f0b9f57a232c79ffc3d3aef744e9eede4182d5e3cec78693','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',5,'Name a capital.','special','first','0d29cf74ff1eaeb29326ee44da13f315061a267ae7706e66a7e49493b35a3432','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',5,'Name a capital.','special','second','9b8dc997bb29dd87b2f9a1197f9a182d9b8ea129a4e5c3fe69f80aaffd128393','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',6,'Say nothing.','special','first','b53b162a7390904d2ad5f8bd41ecebaecc9404e1c3bc3abda61fec27ae732cf6','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',6,'Say nothing.','special','second','083d76869f49733e42359ad84b6d3b525626739a2451998d21bb714fb403a3b9','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',7,'Ask for <filter>.','special','first','a39cb906be438bb08428d9ae61b6c387bed85878f9dfa960fa48f555e0b20b28','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',7,'Ask for <filter>.','special','second','2cadb5cbbbe79bfb4447799a4d1d75592e6b6af798177e91e85dc150bef2dc76','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',8,'Ask for <blank>.','special','first','54b82c53a6b9d3059d8db50ae0a8588e8b1fb333475b96ff65c14dce84098cf5','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',8,'Ask for <blank>.','special','second','d40aecd315865bd9a32cc5afa6f01e2645eba78c55e84a181f66be3114c96d05','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',9,'Ask for <two>.','special','first','39c72dc1dfdd1a1970cf8152b1246251a0a1bb22816c829288e8bdfb51da7045','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',9,'Ask for <two>.','special','second','7b3034bb5eba6d1d1a728e1d5867f7071a0c4a8a5dd7d57aef4804539553a4e5','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',10,'Ask for <echo>.','special','first','a339177c391d3752beca6a6654b2f71684e79e8bbacfcb175b9ff7526c2a634b','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',10,'Ask for <echo>.','special','second','d19ec049019a1afde49617f7bce06c4885386da2e91992e9e7b39527cf203984','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',11,'Ask for <truncated>.','special','first','99379b2dee87c9698d3f38eae3f54ee6e51cb5bb3d7ab0b5d61398d635d23910','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',11,'Ask for <truncated>.','special','second','99185c062d2bb46ce699883d685b341f35ad4ff3c2ef572a027a941010c744bd','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',12,'Ask for <unicode>.','special','first','2c4c6ec139f5fe704b8697a3aea171dac1558bd3d8919d9429c186b8b0522f43','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',12,'Ask for <unicode>.','special','second','a9759fecbb67a1315b136908598ac258c695fa21ca5e488bf1640a874a55db28','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',13,'Ask for <nan>.','special','first','b69704d84a7b709c27ec2e8f99fe21fabb779ed61c14632cc31e66d5bb442e34','unparsed','no log-probability of a label',NULL,NULL,0);
INSERT INTO "judgments" VALUES('smollm2_demo','ours','theirs',13,'Ask for <nan>.','special','second','986680c536a259a07330d8dac8a2a1cb1dcc37f0d80dc2279f74629bcfe18d6f','unparsed','no log-probability of a label',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',4,'Say the same.','special','first','','tie','identical outputs',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','66f512444325c8d411a5129138826f8ade439130d0db0ee500a9f0ac61068f19','tie','equal ranks',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',1,'Translate the input.','special','first','d75aa9741d80d80b284215afcd5d8a4bdf55ed41a33064d0d2d1428f1d110703','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','179c7cf70f5f1f4678c649ab23162028308aa2115a18d8ffa4272dc066246152','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','5915f872c6caa056196934eb3eb35efb2991ab4ba5b1005aebf5ba3aa425ce69','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',5,'Name a capital.','special','second','7095a55ff9c20cdcf381df53b2a439f1d6a0701db9b49e5b7fc26613f2740d7d','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',6,'Say nothing.','special','second','9d06bb4220373d914b36b18beea33a7bee8b81fd528af0b5a048240313eac84c','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',7,'Ask for <filter>.','special','first','c9be7c60e82772c2ac1d71e1ab7a3fe7cd32285ecb76cfcb21de81f06c5d3685','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',8,'Ask for <blank>.','special','first','5ea7a0ca9cc311994f07278089103e4462adc5bf1dc9e04232d854f1521129ff','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',9,'Ask for <two>.','special','first','03bd862d357a97c8372cd654bb35d607c119b7aab1a2196899253e0c561496c6','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',10,'Ask for <echo>.','special','first','0ded069487d0005ed92f984b85006070fdaa0cf30cced06d69d0539b4595ebcd','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',11,'Ask for <truncated>.','special','first','1ba104e70d70b928be31923758f91d4077cfa9b23efb2b81c059188849487ddf','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',12,'Ask for <unicode>.','special','second','674f0068f05a702efdd1a431b4ed3d36c4cc380bd6dc29569ea3e48fcd5ca0c7','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4','ours','theirs',13,'Ask for <nan>.','special','first','371ab27c80c3b2feaa58b25379bfae6d9da3a78089db6727de02458e8684e395','tie','equal ranks',NULL,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',4,'Say the same.','special','first','','tie','identical outputs',NULL,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','8da3df8d41b79b37778d0204598bfb9fedbbd2006a6b827704a09156ff8663b9','first',NULL,1.13939637966532414381e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',1,'Translate the input.','special','first','15fc3fc803143322e2769368bf760da747e7a2c4262461542130372009dcff6e','first',NULL,1.27982849245819862993e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','c823b6c9cc8ba9bb9f7bfd46d283f8a423c032d27ea6d655bc68de2f71a922bb','second',NULL,1.68426402447861289779e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','da823c9d0aaf695945f4c81b5127798d0c7bcbd0f1fa9a4ae1979b999f24f970','first',NULL,1.33982761858536481014e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',5,'Name a capital.','special','second','8d9980e6c9d5959400edfb15494253040a1ae1750233f3ca2c281db71b94d1f5','second',NULL,1.81873679317136982547e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',6,'Say nothing.','special','second','32881890d8509398c7e4adbedd9b5dc16586f7987af0f2c40f69832bfe2cc2b7','first',NULL,1.14511536292037,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',7,'Ask for <filter>.','special','first','fbcf750208889f70c5a7dd3a0822c5f56f3fa41a4137912f62b46ed346158df8','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',8,'Ask for <blank>.','special','first','0f52ab684a202b669ced203a9a1193256f6b61fb82725b82265027e9dee5e5ab','second',NULL,1.79692537181052980344e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',9,'Ask for <two>.','special','first','ab93365471049460fa91a6ad8d6feaeb1efea0e4272709a6efa226d49bb84d8e','first',NULL,1.32939172006452688279e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',10,'Ask for <echo>.','special','first','d0c91ae86ea247840d39c144199ae7180b9b4d4e3448e3a6710a36f67b5d0e2b','second',NULL,1.83655455889152818826e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',11,'Ask for <truncated>.','special','first','8fe638b503abb3751fbf8a75645da35b7157a04e35b5ce72baa0efb413e0b9cb','first',NULL,1.42441198666996204913e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',12,'Ask for <unicode>.','special','second','3e92df5630b51b7311445fd5318436bb1947ecb30127a24971c4673c4d488a0d','second',NULL,1.80440591589350107781e+00,NULL,0);
INSERT INTO "judgments" VALUES('weighted_alpaca_eval_gpt4_turbo','ours','theirs',13,'Ask for <nan>.','special','first','a9639dba2271f8cfb3a3fd97e4e5e25c22b94aacbc121ba4e8859f249ecd576f','unparsed','the annotator''s parser finds no preference',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',4,'Say the same.','special','first','','tie','identical outputs',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','c5a8f477d54eb41ea0f10057d191e11f7e99974f3b0bd59421e2243586e829a5','tie','equal ranks',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',1,'Translate the input.','special','first','fb18401b0a4b3243be733e1b063a576a870f3109b62bdbda289b5bd26d33b1cf','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','d6032df5c554995b5481d63042ea2fe14aef63c60a04bb8e08836ff7515b145e','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','e31f3d38c602da238828ea51cd6548c119575c0f30c7e882454c1ed637eba24f','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',5,'Name a capital.','special','second','ae3f423b5d946fb6f1489dbc03a20f77df40508ec73b422c8b22cf2d7df87f91','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',6,'Say nothing.','special','second','52614873284fca0d87947ae893aadce9bb5dbbe102b8170d58c58d60e3ec11e3','tie','equal ranks',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',7,'Ask for <filter>.','special','first','7839bc8999ebdfa4e71b5829c230bbc06679eb1cb1264688b95317ecc57dcc03','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',8,'Ask for <blank>.','special','first','4b950b960ec0a69bc0b4c5d948079839ab15b2477d1374e495a5839baf48a4a6','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',9,'Ask for <two>.','special','first','c10d1b0c63af7d5fb6529b9d01d9958fef0d01e04498693285c7666e682f3981','tie','equal ranks',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',10,'Ask for <echo>.','special','first','4d647fcbd7f340c31ca18c827ce4a4fc72250305dec410379a57340110ba526e','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',11,'Ask for <truncated>.','special','first','9ebb3de752abefc5b659ec7084afe3ad7af7634f75584b016b9b661fbc8af5a0','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',12,'Ask for <unicode>.','special','second','ae9a0a5987c407f2e55e6a54d013e07ee19d8129f1392608ae746ea7e04eddb5','tie','equal ranks',NULL,NULL,0);
INSERT INTO "judgments" VALUES('alpaca_eval_gpt4_fn','ours','theirs',13,'Ask for <nan>.','special','first','926ca42c90b929353e109547fb17c022806dacd7b916003f28dbeba72bb85db4','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','bcd14ac700810c155ddb50e077d2369f362383e8adf3c74516ffb13391cfbef5','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','4552f5800877c8358301a339a9a914125d556b023423ea95ae5b8ec552c4fb66','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',1,'Translate the input.','special','first','32ee949290c6f81159a1ee84f45c51f0f53543c4ca4b506f88a3a052e9db75a7','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',1,'Translate the input.','special','second','2b18f2b72287fcfb57e9cd3fbf72f3f6f9ffd881ef1f8f7890c469ee67390556','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','4f68f08293f5cb9e2028c8108ca305532e8a5ccc136995ef3bb6708bcaedd9e4','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','3efc36342743b64f82ae773c54af0db9c117507fb239ccbb044fbf25bb0e1c5a','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','39adc4522dd17f21a90b868f255fb929e7e978229ed35f56576a1c02a3fa45d5','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','86ecaa0e4f54e11cedaf60b33a8e269f14d750d03b9f6e534fc90e8f26ea231a','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',4,'Say the same.','special','first','0de9a3d916c18ebba4a712ecec96c27147c7bae2e0d134a26827a17ec931719d','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',4,'Say the same.','special','second','0de9a3d916c18ebba4a712ecec96c27147c7bae2e0d134a26827a17ec931719d','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',5,'Name a capital.','special','first','1145b1f5c9b0d670ecd13915b0a5925eee08679e34c71129021c2c8c16b208c8','unparsed','cut off inside its thinking',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',5,'Name a capital.','special','second','e7d0c3dd81cccb785e0a3e7d1d19492d3615824f556dcf6f9da2512d1f4c0da0','unparsed','cut off inside its thinking',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',6,'Say nothing.','special','first','a043aa96b045ab2043da4298d80a4492adbe2cce2a6040f604e0cdfeb2a3f4c9','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',6,'Say nothing.','special','second','bd5f4a7288bfeba967e4e588d9bde4150afc49a5e836634d193d85f14acec3a1','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',7,'Ask for <filter>.','special','first','2c23ec780761769c73206fef9fbdc2a90d1661d35e9156c16577d4d8fbd37ec9','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',7,'Ask for <filter>.','special','second','088e8379f01d6bf568892d175361f7aca75c602a00c50f56de8c3e84107d4e78','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',8,'Ask for <blank>.','special','first','3d619bc001b7d1310e5f7ba156b7817d61e8f0930639bb4d10a6b29bcb2b9b5d','unparsed','cut off inside its thinking',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',8,'Ask for <blank>.','special','second','dd529b9196c0cdd0edb14d64b488c0f94b53fa30e342e81886a6d0b69656be23','unparsed','cut off inside its thinking',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',9,'Ask for <two>.','special','first','e4b88b92ba2514b1badb9743b7fd248748b86c865e1ee9413eee352cccd9fc11','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',9,'Ask for <two>.','special','second','1fdcbb05323b03fb25d9ee1fd2364c8f405a6361201f57990140682528f8cfe0','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',10,'Ask for <echo>.','special','first','89e33a65f9728b4cebb5707de94b982dea2e97ab2e9f8920849466271a0f27eb','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',10,'Ask for <echo>.','special','second','31fe1ae80d0b3d50e2a12d0a992159bebb2efe2e7231e03f7c89104fa71b9547','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',11,'Ask for <truncated>.','special','first','fe136287743b7e8d97463fcf5b1ff6c7d89139596ff41d007d4acf06dc2fa12b','unparsed','cut off inside its thinking',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',11,'Ask for <truncated>.','special','second','fb5b3951d49a6eee7578c9127252415850cf8772c41d7fa9a0ef3977d9fae1b5','unparsed','cut off inside its thinking',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',12,'Ask for <unicode>.','special','first','c191d47e5dd94eb3d044eeb87499c20e2668b623121a88e1f81da10472bedc06','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',12,'Ask for <unicode>.','special','second','72e67b37c32435769d26ef08a7ca9d5c2c11c9bebf7aaae2b795aab046ee1ab2','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',13,'Ask for <nan>.','special','first','0e063d671c3089eadb1e4189a90dcb204d314af628d7873c787521a6a1a07f26','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_json','ours','theirs',13,'Ask for <nan>.','special','second','5c78dcbd80c31a7981c8b0a81704b70bcbad8dd516daf32fbdca933e9b7f8495','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','1fd3a13f8eb301a5878b8a10515c083208d43601d9df8b0e76df51f14758864f','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','7c373ef10ac8cc2e8d7faeb6a652f41822a234bd684185b87cd4f2a6cd603f5d','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',1,'Translate the input.','special','first','a6ab2611c092b6872f1433da3067bcbf00a9f160b9647942bbf07d7572bb7876','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',1,'Translate the input.','special','second','1c24cdd47a06cd32bc482f42c28172f1ae8d6b980b5487515405e065cb862f05','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','f7713faedce66247e63a8f6dcf59b50d106f6de08f01606d2cf8d63d4bd3b566','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','16b4d3ede589ce6dc94791cf5c89f1bb4133e02a6fe64bda17db2afdfade556b','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','c57ab893d7c75d791a09bf6abec9674f1991d7018262050c7bc6f2aef52142b8','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','f26ab714e75816c03d4661dae3233c1da41e4891126272f6493656a851f0c206','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',4,'Say the same.','special','first','51e4c4e5f271dc280efbd8167e9ba0e28d394b2eaba7bfab5701842c825387f0','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',4,'Say the same.','special','second','51e4c4e5f271dc280efbd8167e9ba0e28d394b2eaba7bfab5701842c825387f0','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',5,'Name a capital.','special','first','3e8a9d6dac65d359b2bafd6c9d2fb881df9cfebcc55a649ee81b25694a7f3615','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',5,'Name a capital.','special','second','a19721eb5d6dae69dc452d610ec1f390e58335b8dbbb0911325598e76b79d3bf','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',6,'Say nothing.','special','first','2fb4b1de19ec6fd8a7b12aee7512bb0baca8131cdee26fe20eb0b816c8882df8','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',6,'Say nothing.','special','second','7cb3ce8cba93aff2f9620846fabbbf0d347e7da6741d8713816c48c1f9bc7535','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',7,'Ask for <filter>.','special','first','2017f97698f64c91e37688cc647a7ddb000562d28a0163accebe17520ac9b4df','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',7,'Ask for <filter>.','special','second','868f82bb7581705d1cf3a9dbd45f864cd295617da7e7c551957a5e1d051fe47f','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',8,'Ask for <blank>.','special','first','287764ba784b45c5a0d4aca3bc1455bf42116dc2a26c0edb89b0842f51995dfb','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',8,'Ask for <blank>.','special','second','8d2399fc8c16412de028a84c110dd287e0fe3cd2694fd3a045c3545a212dfec6','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',9,'Ask for <two>.','special','first','d29ab6130964ff056df022837294d7014db07141033d8e7e3c69fd3b589b83c6','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',9,'Ask for <two>.','special','second','7b6e43090eaf10cf620a2819ca636ad1372fb9de2238046504bbee580ea1cf37','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',10,'Ask for <echo>.','special','first','474a06648fa5908fda1279b61eefbf3ab5f629374e1fe74ff0d89d3500ec305f','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',10,'Ask for <echo>.','special','second','8d6919118c03ac251af78a083369877ee783609cc29880764aefd8097feac5c4','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',11,'Ask for <truncated>.','special','first','a8bb981ca06256a9da74674b74af983da1ee5fc334efa9f675cd20ecea2c81a6','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',11,'Ask for <truncated>.','special','second','d3ba88d1553fb404871128ccac0892988d553927d9f59514a317cd8183a49fa7','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',12,'Ask for <unicode>.','special','first','10643a8779c42f7dd3dfdc42ae75b2e339edc6e08bc4c8c5a852a678daed57ec','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',12,'Ask for <unicode>.','special','second','97d80630a573ee1a504723004ea21f78ed613a5d4595a875d25580241b97a5fb','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',13,'Ask for <nan>.','special','first','974a78e4854fa34835f28c830f4ef08bfa57d57e63b98a6f29eb7fd0ab9b09a2','unparsed','no log-probability of a label',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_labels','ours','theirs',13,'Ask for <nan>.','special','second','afde70b2dc0191544821cb46eba48fb643da604c6184fdbf3c604cace28dccd0','unparsed','no log-probability of a label',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','f3d4a373a95d47efa00672cea338966ea23c914c5305a68b1cb003312112c115 2300a6c267e4ea8a943d897b77a003b9d20c946d06fed812ef971fc72b1618e9','first',NULL,NULL,'[7.0, 4.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',1,'Translate the input.','special','first','81413323bcbc0b66792544e524268786c1ec633fb6e1eb9ce5f9833b36a7f1c4 2ec89b55dc5e49e15d39daac50513bdb715a1f652c47d9efbfd80e2077cf35f0','second',NULL,NULL,'[3.0, 5.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','d227bc736a7d1fade95da7c786987e209a36b6fbfeb4b9173c325b6305f2b654 9474175863b7077105abad07badd0000b6e160cc01494c203b019a2c94011ce7','first',NULL,NULL,'[10.0, 5.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','d3fe51f72e51f14c11ab892604503e3bc0a17c6ce33e6699f051ebfc9a0f293b 709bd090028f2f13472475514d9cda3cba73f7be30b6123a35917826c4af1008','second',NULL,NULL,'[4.0, 10.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',4,'Say the same.','special','first','3b530eedc0e68f1584570e8b62ba925bb5fe564d85d55466651ed6f79e4de9be 3b530eedc0e68f1584570e8b62ba925bb5fe564d85d55466651ed6f79e4de9be','tie',NULL,NULL,'[3.0, 3.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',5,'Name a capital.','special','first','eaa18e6db6c6e51d0c392c1c8c2ce50a679c2d6ee7ab1048fc4bdd62dfe1e28f 6d45ae50eb07a099f8e83146a01ae839df8569d8da758aefe23396af0a118ff9','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',6,'Say nothing.','special','first','cd861b2002988257cb15d7ba7f6dba8e6f7da1adcf5a665e06170b841f672228 42b10fdb6f7a18f32a2e17ca4d734d11832b22d968ed5bafa8202b492e052680','second',NULL,NULL,'[8.0, 9.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',7,'Ask for <filter>.','special','first','008c2587da115360e3bc1c7ab5737789afa409caf6efbe022e59d2d8af36cd97 240185051d9e05eec8bc193df39f8f735ad51308b62b919c9902b041dc3e0609','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',8,'Ask for <blank>.','special','first','791a5e3d939da3e9de29e32c6d29bb5d26ac6273df6392339fc5b887ed21711f 645dfb64d5eb3a6ec1a2a55b273ac5c8f7924a908af1e950c81b7bbc5b9a8870','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',9,'Ask for <two>.','special','first','250c314b6a7fcddb42f160f36d3d0afc01ac13f5ddfa3537d80244838267a50f 35fab44794dc655a248bdedffc93fbe4b8365f2d0865064bf691a62feeca13bf','first',NULL,NULL,'[7.0, 2.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',10,'Ask for <echo>.','special','first','c26eda86f6207230a1ca5bf71d2d55d638f57d4f41d249b5955a9c64b72d86e3 663ebc5a67d1ec8d9f5fe62065275b8924c5431f2ca7d335a905c921aaef43ad','second',NULL,NULL,'[4.0, 6.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',11,'Ask for <truncated>.','special','first','ef05e467d4dd27e195b6117139fc8894955e241e58fa1296304189a1076807ed bcc79c81fb811fa8dd5510c79d28c7f276fe2885faf9b0b79c3eaf20d98f5327','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',12,'Ask for <unicode>.','special','first','15b909ba42fec047c654c196e1cc99be9c17020188a6a5f4352bc8143640672a 6d1fd270c732cc5cee573912ddd4f35f3e0d5a8b31f4717d84c2c287a6899b7a','second',NULL,NULL,'[3.0, 7.0]',0);
INSERT INTO "judgments" VALUES('golden_rating','ours','theirs',13,'Ask for <nan>.','special','first','946b97c470ca3c4b04740acfcb0485adb387f515c66ba49afa673f64aaebe419 889f94e56c211cd5caf1e230cf446fee50fa1756b314937549fd6aa5148bd323','second',NULL,NULL,'[3.0, 6.0]',0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','76c31f367c5820f24680e99874e66d2ead36f6a9087862f199c1c1ee4d14f44d','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','0140d5df5c57a178cce45811fa7125a06560523d8e0168fba74cabbb7df323d7','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',1,'Translate the input.','special','first','09115dac77e63faacddba87088321ec9ea6015d1140c7e8124fbf1712fad9bcf','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',1,'Translate the input.','special','second','f0d0879b1239a898a991be9ed4c98ecac57a17cce80c3ec980fb7555cc93ca1f','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','8a3581f8ca4a36defbd6f9d420ac8dd5e88df46b9b8ea7b10585d63b7268a47d','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','07a009ab764865526e2164c6cca26401d84673b0ec1fb81493cf0363238380cd','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','8a3aaeb42bc6390511e5f89b1b6cdfb07ca4bf13d8f24e4eb146e1ccbf392b26','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','eccc1527e006facaab5bc77ad0d77d654f601d341e87d527e1d312cd7639d33a','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',4,'Say the same.','special','first','8e27c37fced77ba74e70c8f0dbb6bf423d9495b2ad06dca903f5f7cf76616e00','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',4,'Say the same.','special','second','8e27c37fced77ba74e70c8f0dbb6bf423d9495b2ad06dca903f5f7cf76616e00','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',5,'Name a capital.','special','first','c52a4c381d6038a536165170cf56ebadbebc8ab6373c5f04cbc15f0bd4065d94','unparsed','a verdict that the card does not know',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',5,'Name a capital.','special','second','e1fb1a2da9024075ac0710b436008ec61303bc1f3d9100b379a482cdc1c1aaf4','unparsed','a verdict that the card does not know',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',6,'Say nothing.','special','first','798661f56e1656c39d20999ea8bb60f1cbcc62f93a450983b2cfdc87c14819a8','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',6,'Say nothing.','special','second','1244a33dc4dba02d0827e9a6f1e31473c00b69640c114cef01132d71cf6cf64c','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',7,'Ask for <filter>.','special','first','43852856b9c8a401d12897bf98ba1436a182d024537144d34cf989245d3a1771','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',7,'Ask for <filter>.','special','second','6ccc9394614791a839272eb7b35d370ef353acf7842e84b85325934e2535e92d','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',8,'Ask for <blank>.','special','first','219ca1b9550b057bd1190fca6d9d272529ade5bb66d47a1a457d1c70f411583b','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',8,'Ask for <blank>.','special','second','9eab223281e91e1a13f2d3efad6ca8ee6c4194960c7b0b0838908f5bc339b12d','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',9,'Ask for <two>.','special','first','395ff45e8a1354ec2260a379714c321495092212fd1cda76c0dd7ef1195478fd','unparsed','a verdict that the card does not know',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',9,'Ask for <two>.','special','second','223e50e0e4141cc99ab1cb6a26e3332a8cb48fb9b0a9bdf79c8c0a9628189cd6','unparsed','a verdict that the card does not know',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',10,'Ask for <echo>.','special','first','61d29825e214427c21175b7acd07fd3ff66b74d2790e950ad01f9bb2c24952e6','unparsed','a verdict that the card does not know',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',10,'Ask for <echo>.','special','second','50be8ecee0e95a4ad3ab4f517ef9b87e538fcf1dc3975179c7a1a29188c96f99','unparsed','a verdict that the card does not know',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',11,'Ask for <truncated>.','special','first','4e6dedc36ffe11ef17123fe2062ae6d50a5ba0bad94e5ebd16468c919ef5c98d','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',11,'Ask for <truncated>.','special','second','c7d88c81589b7b7a4034dc24925258b23ebd0e9a321616b3755a2215b11e723f','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',12,'Ask for <unicode>.','special','first','3be2d7a3d9dbf0b1d899792967772ce73c6f6f22c684f7640cd1dea9afbbc798','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',12,'Ask for <unicode>.','special','second','92db51a8096ac7f685da95778752b0acc090f3c955b748c6beb092696d0f8ca6','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',13,'Ask for <nan>.','special','first','5e1c93864d0d4d12fef7f76b7775a84c26cff13c5f1e9d911d9a5ffab4b46a34','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_regex','ours','theirs',13,'Ask for <nan>.','special','second','366f14e9b374e76fec33d9dfe015adc59a1ca215ace057e46335c4fc322a8a36','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','first','61fbb47270c0e2f1232cb8c6c5d7d5fe8fb12baf403813b1cbbd7b8653ad6007','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',0,'Explain to a ten-year-old why we see lightning before we hear the thunder, and how to use the gap to guess how far away the storm is.','explanation','second','fe3ad523bbc032f5d3f7b15773c9fab149d180b7a0b3700edc472296132b03f4','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',1,'Translate the input.','special','first','d32e41babd187e115c74d9f7ca5804a052b49f7efe800db7cb8dcdce1ff46b27','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',1,'Translate the input.','special','second','cb2f5d1afaba20ab7668e570afab9715f377fb072eb429133fe0fd922fe5ab12','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','first','d0bfdfc76a6b2dc008fc756cf4064ba1d2998bd4a0029ad2e33d79c62a8814a3','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',2,'Say “naïve” in 日本語‮ 🙂 é','special','second','46abb77b4b85b7f3ad92f31d55ec45ad6e505030fd9b057b381d4480ea93c655','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','first','cfe5debd45af5b4293ca7f131ef90ace77de7128f3021e91b051a5b7ee67003b','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',3,'I have a job interview by video next week, but I live in a small flat with a noisy flatmate and a weak internet connection. How should I prepare?','advice','second','a2a9cffd58dc38908ece3c4e45a751413f7293421ffad6b349f194b5ab47ce72','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',4,'Say the same.','special','first','e1cfea4271b363f883393a84b49f8f1d49878e12792ae7f2842f489f9efa25bd','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',4,'Say the same.','special','second','e1cfea4271b363f883393a84b49f8f1d49878e12792ae7f2842f489f9efa25bd','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',5,'Name a capital.','special','first','99e587b51813019df7d72aed6982d6ccd317a79e963b89ea670b597c00d0522c','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',5,'Name a capital.','special','second','40c1fe93c0dc563baf82d6e828bdedbe2eb34709527e2e971d1b00628b28c31a','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',6,'Say nothing.','special','first','f1409883ce0c86a3a638d062792220c68b82a23fa2131527c86a8926e0485d03','first',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',6,'Say nothing.','special','second','87678093239926894fbfb257c764e18c5ad9e7153542d38c90d8b07f743534c2','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',7,'Ask for <filter>.','special','first','c81d9b908fa5f198405a332d4469f059b18b48e3fd53cd0a5a38e5c7df497b8b','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',7,'Ask for <filter>.','special','second','f4e70ac52672a9e8ad4e917043c6f77567a6aa2d7f5bffd384821493e733aae0','failed','content filter',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',8,'Ask for <blank>.','special','first','53cb070a41927a050b20dba34b00a2b9811ad21ee8a563cd868313304e26f7d6','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',8,'Ask for <blank>.','special','second','e347c017716283656e7f82bfdb9ab43b3c839d401dac7766d637eb76bbdbb2c6','unparsed','the reply holds no verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',9,'Ask for <two>.','special','first','aaf0dfa12a945e3724055e3fc9cc05d5a6d0f7612dcd2e889f144184656e5ccb','unparsed','several verdicts',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',9,'Ask for <two>.','special','second','2f2e971d0a57145231eb6b781b570066e06fd7a3a8a632cafebf5a0691474484','unparsed','several verdicts',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',10,'Ask for <echo>.','special','first','82c33b08e9c710dfb4cc735c2fcfc289c0236da9b0d030a5f654482d93e6a171','unparsed','several verdicts',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',10,'Ask for <echo>.','special','second','e25d1121df85d2119e6112d8db253d897943223c6ac2d3ea76ffb07b190e5f6b','unparsed','several verdicts',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',11,'Ask for <truncated>.','special','first','3c68053ae2abf26bec115bbf41cf0315ed76d5dc939da62f10913bd97817b4fa','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',11,'Ask for <truncated>.','special','second','975009e677b786a421465cc7b71505f891c618b1fced12489d30da53d29a102c','unparsed','cut off at max_tokens before its verdict',NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',12,'Ask for <unicode>.','special','first','7a51cd1aa9dd399cc3f66b5a03be2b0b360e10e89b8a9396bd42fff61a4d4dc1','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',12,'Ask for <unicode>.','special','second','bccff20e8121a146aa0d42f57fba0cce8c6d5d89d03382ef3612897ba87f64c4','second',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',13,'Ask for <nan>.','special','first','a9da2572a956558f2dca931859146c81b68122c44be3162591ab3a32ec2a3318','tie',NULL,NULL,NULL,0);
INSERT INTO "judgments" VALUES('golden_words','ours','theirs',13,'Ask for <nan>.','special','second','ac964240d94ac9a56d49eb4d9d62dd0685db326f16a7f74e35277734c692b070','first',NULL,NULL,NULL,0);
CREATE TABLE leases (key TEXT PRIMARY KEY, holder TEXT NOT NULL, expires REAL NOT NULL, usd REAL NOT NULL) STRICT;
CREATE TABLE spending (
    key TEXT NOT NULL,
    judge TEXT NOT NULL,
    usd REAL NOT NULL,
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
) STRICT;
INSERT INTO "spending" VALUES('61fbb47270c0e2f1232cb8c6c5d7d5fe8fb12baf403813b1cbbd7b8653ad6007','golden_words',0.000258,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('fe3ad523bbc032f5d3f7b15773c9fab149d180b7a0b3700edc472296132b03f4','golden_words',0.000258,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('d32e41babd187e115c74d9f7ca5804a052b49f7efe800db7cb8dcdce1ff46b27','golden_words',0.000136,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('cb2f5d1afaba20ab7668e570afab9715f377fb072eb429133fe0fd922fe5ab12','golden_words',0.000136,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('d0bfdfc76a6b2dc008fc756cf4064ba1d2998bd4a0029ad2e33d79c62a8814a3','golden_words',0.000144,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('46abb77b4b85b7f3ad92f31d55ec45ad6e505030fd9b057b381d4480ea93c655','golden_words',0.000144,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('cfe5debd45af5b4293ca7f131ef90ace77de7128f3021e91b051a5b7ee67003b','golden_words',0.000266,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('a2a9cffd58dc38908ece3c4e45a751413f7293421ffad6b349f194b5ab47ce72','golden_words',0.000266,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('e1cfea4271b363f883393a84b49f8f1d49878e12792ae7f2842f489f9efa25bd','golden_words',0.000134,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('99e587b51813019df7d72aed6982d6ccd317a79e963b89ea670b597c00d0522c','golden_words',0.000196,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('40c1fe93c0dc563baf82d6e828bdedbe2eb34709527e2e971d1b00628b28c31a','golden_words',0.00018,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('f1409883ce0c86a3a638d062792220c68b82a23fa2131527c86a8926e0485d03','golden_words',0.00013,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('87678093239926894fbfb257c764e18c5ad9e7153542d38c90d8b07f743534c2','golden_words',0.00013,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('53cb070a41927a050b20dba34b00a2b9811ad21ee8a563cd868313304e26f7d6','golden_words',6.6e-05,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('e347c017716283656e7f82bfdb9ab43b3c839d401dac7766d637eb76bbdbb2c6','golden_words',6.6e-05,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('aaf0dfa12a945e3724055e3fc9cc05d5a6d0f7612dcd2e889f144184656e5ccb','golden_words',0.000296,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('2f2e971d0a57145231eb6b781b570066e06fd7a3a8a632cafebf5a0691474484','golden_words',0.000296,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('82c33b08e9c710dfb4cc735c2fcfc289c0236da9b0d030a5f654482d93e6a171','golden_words',0.000298,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('e25d1121df85d2119e6112d8db253d897943223c6ac2d3ea76ffb07b190e5f6b','golden_words',0.000298,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('3c68053ae2abf26bec115bbf41cf0315ed76d5dc939da62f10913bd97817b4fa','golden_words',0.000144,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('975009e677b786a421465cc7b71505f891c618b1fced12489d30da53d29a102c','golden_words',0.000144,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('7a51cd1aa9dd399cc3f66b5a03be2b0b360e10e89b8a9396bd42fff61a4d4dc1','golden_words',0.000182,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('bccff20e8121a146aa0d42f57fba0cce8c6d5d89d03382ef3612897ba87f64c4','golden_words',0.000182,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('a9da2572a956558f2dca931859146c81b68122c44be3162591ab3a32ec2a3318','golden_words',0.000136,'2026-01-01T00:00:00Z');
INSERT INTO "spending" VALUES('ac964240d94ac9a56d49eb4d9d62dd0685db326f16a7f74e35277734c692b070','golden_words',0.000136,'2026-01-01T00:00:00Z');
COMMIT;
UPDATE completions SET text = CAST(X'320A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '004ad62d07521ec32b3ed01ae64ca2cd2d5389a63d69a04e96097c2169ae3a8b';
UPDATE completions SET text = CAST(X'426F74682061726520616E73776572732E0A536F2C207468652066696E616C206465636973696F6E2069732054696520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '05f29abb6da3052a4924792d49f140591d8804891a4da2038cf3a3f4f9702ac3';
UPDATE completions SET text = CAST(X'320A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '0d0b1da62a6edeb15aacb4232406acd1bdfa963848677e795f71332f16123c9e';
UPDATE completions SET text = CAST(X'5469650A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '10643a8779c42f7dd3dfdc42ae75b2e339edc6e08bc4c8c5a852a678daed57ec';
UPDATE completions SET text = CAST(X'426F74682061726520616E73776572732E0A536F2C207468652066696E616C206465636973696F6E2069732054696520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '1259915b1bd3656c44f03a291c024a26d46658a03d2b516d57520b3f7d925a7d';
UPDATE completions SET text = CAST(X'497420616E73776572732E20526174696E673A205B5B335D5D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '15b909ba42fec047c654c196e1cc99be9c17020188a6a5f4352bc8143640672a';
UPDATE completions SET text = CAST(X'310A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '2c4c6ec139f5fe704b8697a3aea171dac1558bd3d8919d9429c186b8b0522f43';
UPDATE completions SET text = CAST(X'5469650A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '3be2d7a3d9dbf0b1d899792967772ce73c6f6f22c684f7640cd1dea9afbbc798';
UPDATE completions SET text = CAST(X'320A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '3e92df5630b51b7311445fd5318436bb1947ecb30127a24971c4673c4d488a0d';
UPDATE completions SET text = CAST(X'497420616E73776572732E20526174696E673A205B5B325D5D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '60d808346834d8d2f520ea0511af859813865bc935075eb136488b38f6af2055';
UPDATE completions SET text = CAST(X'5B7B276D6F64656C273A20276D6F64656C5F31272C202772616E6B273A20317D2C207B276D6F64656C273A20276D6F64656C5F32272C202772616E6B273A20327D5D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '674f0068f05a702efdd1a431b4ed3d36c4cc380bd6dc29569ea3e48fcd5ca0c7';
UPDATE completions SET text = CAST(X'497420616E73776572732E20526174696E673A205B5B375D5D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '6d1fd270c732cc5cee573912ddd4f35f3e0d5a8b31f4717d84c2c287a6899b7a';
UPDATE completions SET text = CAST(X'3C7468696E6B3E31206F7220323F3C2F7468696E6B3E0A7B22676F6C64656E5F76657264696374223A202231227D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '72e67b37c32435769d26ef08a7ca9d5c2c11c9bebf7aaae2b795aab046ee1ab2';
UPDATE completions SET text = CAST(X'5469650A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '7a51cd1aa9dd399cc3f66b5a03be2b0b360e10e89b8a9396bd42fff61a4d4dc1';
UPDATE completions SET text = CAST(X'320A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '92db51a8096ac7f685da95778752b0acc090f3c955b748c6beb092696d0f8ca6';
UPDATE completions SET text = CAST(X'5469650A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = '97d80630a573ee1a504723004ea21f78ed613a5d4595a875d25580241b97a5fb';
UPDATE completions SET text = CAST(X'5469650A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = 'a9759fecbb67a1315b136908598ac258c695fa21ca5e488bf1640a874a55db28';
UPDATE completions SET text = CAST(X'426F74682061726520616E73776572732E0A536F2C207468652066696E616C206465636973696F6E2069732054696520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = 'b6783ca297567abbc4cdabfbccb4c37efd3549841d0fd804197c40e98bf347e5';
UPDATE completions SET text = CAST(X'320A23232320526561736F6E3A20736F0A232323205265666572656E63653A206E6F6E6520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = 'bccff20e8121a146aa0d42f57fba0cce8c6d5d89d03382ef3612897ba87f64c4';
UPDATE completions SET text = CAST(X'426F74682061726520616E73776572732E0A536F2C207468652066696E616C206465636973696F6E2069732054696520EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = 'bd0e3a79751652db0fc6457e4d6f21f64bbc367e78e9cf3063baf1940b100a34';
UPDATE completions SET text = CAST(X'3C7468696E6B3E31206F7220323F3C2F7468696E6B3E0A7B22676F6C64656E5F76657264696374223A202231227D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = 'c191d47e5dd94eb3d044eeb87499c20e2668b623121a88e1f81da10472bedc06';
UPDATE completions SET text = CAST(X'497420616E73776572732E20526174696E673A205B5B385D5D20EFBFBD200020E280AE726967687420746F206C65667420F09F9880' AS TEXT) WHERE key = 'e293e29d96d81083fa2357ee6ee18515f51a9e4170255d0c8ca867e5e2e9beee';
PRAGMA user_version = 2;
